package main

// notInFile are the flags that say where the file is and what to do with it, the one that
// no run starts with, and those that are for one terminal or secret.
var notInFile = []string{"config", "print-config", "resume", "serve", "serve-token", "help"}

// notWritten are flags that a file may have and that tune writes into none: on another
// machine they would mean another thing.
var notWritten = []string{"force"}

// theirNames are LLaMA-Factory's names for our flags, where they differ by more than
// underscores.
var theirNames = map[string]string{
	"model_name_or_path":          "model",
	"dataset":                     "data",
	"eval_dataset":                "eval-data",
	"output_dir":                  "out",
	"cutoff_len":                  "seq",
	"learning_rate":               "lr",
	"num_train_epochs":            "epochs",
	"max_steps":                   "steps",
	"per_device_train_batch_size": "batch",
	"gradient_accumulation_steps": "grad-accum",
	"lr_scheduler_type":           "schedule",
	"warmup_steps":                "warmup",
	"lr_scheduler_kwargs":         "schedule-args",
	"max_grad_norm":               "clip",
	"use_rslora":                  "lora-rslora",
	"use_muon":                    "muon-match-rms",
	"adapter_name_or_path":        "adapter",
	"save_steps":                  "save-every",
	"save_total_limit":            "keep",
	"eval_steps":                  "eval-every",
	"load_best_model_at_end":      "load-best-at-end",
	"val_size":                    "eval-size",
	"packing":                     "no-packing",
	"quantization_bit":            "base-int8",
	"eval_strategy":               "no-eval",
	"mix_strategy":                "mix",
	"interleave_probs":            "mix-probs",
	"default_system":              "system",
	"additional_target":           "train-modules",
	"modules_to_save":             "train-modules",
	"freeze_trainable_layers":     "train-layers",
	"freeze_extra_modules":        "train-modules",
	"label_smoothing_factor":      "label-smoothing",
	"moe_aux_loss_coef":           "router-aux-loss",
	"enable_thinking":             "template-args",

	"bf16":                           "precision",
	"disable_gradient_checkpointing": "gradient-checkpointing",
}

// theirValues are LLaMA-Factory's spellings of values of ours, by its keys.
var theirValues = map[string]map[string]string{
	"lora_target":      {"all": "all-linear"},
	"max_steps":        {"-1": "0"},
	"quantization_bit": {"8": "true"},
	"eval_strategy":    {"no": "true", "false": "true", "steps": "false"},
	"bf16":             {"true": "bf16", "false": "float32"},
	"enable_thinking":  {"true": "enable_thinking=true", "false": "enable_thinking=false"},

	// These say the opposite of our flags.
	"packing":                        {"true": "false", "false": "true"},
	"disable_gradient_checkpointing": {"true": "false", "false": "true"},
}

// fixed are keys of LLaMA-Factory that decide something which is not a choice here, with
// the values that say what tune does anyway.
var fixed = map[string][]string{
	"finetuning_type":       {methodLoRA, methodFull, methodFreeze},
	"do_train":              {"true"},
	"do_eval":               {"true", "false"},
	"do_predict":            {"false"},
	"predict_with_generate": {"false"},
	"use_dora":              {"false"},

	"freeze_trainable_modules": {"all"},

	"neat_packing": {"true", "false"}, // what is packed into a row never sees its neighbours

	"save_strategy":          {"steps", "no", "false"},
	"dataloader_drop_last":   {"false"},
	"resume_from_checkpoint": {"false"},
	"create_new_adapter":     {"false"},
	"metric_for_best_model":  {"eval_loss", "loss"},
	"greater_is_better":      {"false"},
}

// remedies say what to do about other values of fixed keys, where it is not to take one of
// those.
var remedies = map[string]string{
	"save_strategy":            "checkpoints are saved after every save_steps steps, or not at all: steps or no",
	"freeze_trainable_modules": "all of a layer is trained; freeze names modules that are not",
	"resume_from_checkpoint":   "leave it out, and resume with tune --resume --out DIR or --resume=CHECKPOINT",
	"create_new_adapter":       "merge the adapter first, with tune merge, and train a new one on the result",
}

// The values of finetuning_type.
const (
	methodLoRA = "lora"
	methodFull = "full"
	// methodFreeze trains some layers.
	methodFreeze = "freeze"
)

// theirLayers is how many of the last layers LLaMA-Factory trains with methodFreeze where its file
// does not say.
const theirLayers = "2"

// theirRank is the rank of LLaMA-Factory's adapters where its file names none.
const theirRank = "8"

// withoutMeaning are keys of LLaMA-Factory about things that tune does not have; they
// change no result. It computes in float32 whatever is asked for, and saves in the dtype
// of the model's files.
var withoutMeaning = []string{
	"overwrite_cache", "overwrite_output_dir", "preprocessing_num_workers", "preprocessing_batch_size",
	"dataloader_num_workers",
	"logging_steps", "plot_loss", "ddp_timeout", "trust_remote_code",
	"save_only_model", "include_num_input_tokens_seen", "flash_attn", "use_fast_tokenizer", "low_cpu_mem_usage",
	"run_name", "per_device_eval_batch_size", "full_determinism", "logging_first_step", "logging_strategy",
}
