package configfile

// notInFile are the flags that say where the file is and what to do with it, the one that
// no run starts with, and those that are for one terminal or secret.
var notInFile = []string{"config", "print-config", "resume", "find-lr", "serve", "serve-token", "help"}

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
	"use_dora":                    "lora-dora",
	"pissa_init":                  "lora-init",
	"use_muon":                    "muon-match-rms",
	"adapter_name_or_path":        "adapter",
	"save_steps":                  "save-every",
	"save_total_limit":            "keep",
	"eval_steps":                  "eval-every",
	"load_best_model_at_end":      "load-best-at-end",
	"metric_for_best_model":       "best-metric",
	"compute_accuracy":            "metric",
	"val_size":                    "eval-size",
	"packing":                     "no-packing",
	"train_sampling_strategy":     "group-by-length",
	"quantization_bit":            "base-int8",
	"eval_strategy":               "no-eval",
	"early_stopping_steps":        "early-stopping",
	"mix_strategy":                "mix",
	"interleave_probs":            "mix-probs",
	"default_system":              "system",
	"new_special_tokens":          "add-special-tokens",
	"resize_vocab":                "pad-vocab",
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

// Ours returns the flag that LLaMA-Factory has another name for, and "" if the key is no such name.
func Ours(key string) string { return theirNames[key] }

// byValue are flags that values of their keys stand for, where these are not theirNames'.
var byValue = map[string]map[string]string{"quantization_bit": {"4": "base-nf4"}}

// ofSteps are keys that are in steps and, in transformers, below 1 a share of all of these, with the flags that say
// it in another way.
var ofSteps = map[string]string{"warmup_steps": "warmup-ratio", "eval_steps": "eval-epochs",
	"save_steps": "save-epochs"}

// theirValues are LLaMA-Factory's spellings of values of ours, by its keys. A test of the command compares ours with
// the trainer's constants.
var theirValues = map[string]map[string]string{
	"lora_target":             {"all": "all-linear"},
	"max_steps":               {"-1": "0"},
	"quantization_bit":        {"8": "true", "4": "true"},
	"pissa_init":              {"true": "pissa", "false": ""},
	"eval_strategy":           {"no": "true", "false": "true", "steps": "false", "epoch": "false"},
	"bf16":                    {"true": "bf16", "false": "float32"},
	"resize_vocab":            {"true": "64", "false": "0"},
	"compute_accuracy":        {"true": "token_accuracy", "false": ""},
	"train_sampling_strategy": {"random": "false", "group_by_length": "true"},
	"metric_for_best_model": {"eval_loss": bestLoss, "accuracy": "token_accuracy", "eval_accuracy": "token_accuracy",
		"rouge-l": "rouge_l", "eval_rouge-l": "rouge_l", "eval_rouge_l": "rouge_l", "eval_exact_match": "exact_match"},
	"enable_thinking": {"true": "enable_thinking=true", "false": "enable_thinking=false"},

	// These say the opposite of our flags.
	"packing":                        {"true": "false", "false": "true"},
	"disable_gradient_checkpointing": {"true": "false", "false": "true"},
}

// bestLoss is the value of --best-metric for the loss.
const bestLoss = "loss"

// fixed are keys of LLaMA-Factory that decide something which is not a choice here, with
// the values that say what tune does anyway.
var fixed = map[string][]string{
	"finetuning_type":       {methodLoRA, methodFull, methodFreeze},
	"do_train":              {"true"},
	"do_eval":               {"true", "false"},
	"do_predict":            {"false"},
	"predict_with_generate": {"false"},
	"quantization_method":   {"bnb", "bitsandbytes"},
	"quantization_type":     {"nf4"},
	"double_quantization":   {"true"},

	"freeze_trainable_modules": {"all"},

	"neat_packing": {"true", "false"}, // what is packed into a row never sees its neighbours

	"save_strategy":          {"steps", "epoch", "no", "false"},
	"dataloader_drop_last":   {"false"},
	"resume_from_checkpoint": {"false"},
	"create_new_adapter":     {"false"},
	"eval_on_each_dataset":   {"true", "false"}, // each is told by its name, and all together
}

// remedies say what to do about other values of fixed keys, where it is not to take one of
// those.
var remedies = map[string]string{
	"save_strategy": "checkpoints are saved after every save_steps steps, after every epoch, or not at " +
		"all: steps, epoch or no",
	"quantization_method": "weights are quantised as they are loaded: bnb; quantization_bit is 4 for NF4, 8 for " +
		"int8",
	"quantization_type":        "the four bits are NF4: nf4",
	"double_quantization":      "what the blocks of NF4 are multiplied by is always quantised, too: leave it out",
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
