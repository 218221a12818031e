package main

// notInFile are the flags that say where the file is and what to do with it, the one that
// no run starts with, and those that are for one terminal or secret.
var notInFile = []string{"config", "print-config", "resume", "serve", "serve-token", "help"}

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
	"max_grad_norm":               "clip",
	"use_rslora":                  "lora-rslora",
	"adapter_name_or_path":        "adapter",
	"save_steps":                  "save-every",
	"save_total_limit":            "keep",
	"eval_steps":                  "eval-every",
	"load_best_model_at_end":      "load-best-at-end",
}

// theirValues are LLaMA-Factory's spellings of values of ours, by its keys.
var theirValues = map[string]map[string]string{
	"lora_target":       {"all": "all-linear"},
	"max_steps":         {"-1": "0"},
	"lr_scheduler_type": {"constant_with_warmup": "constant"}, // ours always starts with the warm-up that is asked for
}

// fixed are keys of LLaMA-Factory that decide something which is not a choice here, with
// the values that say what tune does anyway.
var fixed = map[string][]string{
	"stage":    {"sft", "pt"},
	"do_train": {"true"},
	"do_eval":  {"true", "false"},
	"optim":    {"adamw_torch", "adamw_hf", "adamw_torch_fused"},
	"bf16":     {"false"},
	"fp16":     {"false"},

	"save_strategy":          {"steps"},
	"resume_from_checkpoint": {"false"},
}

// withoutMeaning are keys of LLaMA-Factory about things that tune does not have; they
// change no result.
var withoutMeaning = []string{
	"overwrite_cache", "overwrite_output_dir", "preprocessing_num_workers", "preprocessing_batch_size", "dataloader_num_workers",
	"logging_steps", "plot_loss", "report_to", "ddp_timeout", "trust_remote_code", "eval_strategy",
	"save_only_model", "include_num_input_tokens_seen", "flash_attn", "use_fast_tokenizer", "low_cpu_mem_usage",
	"run_name", "per_device_eval_batch_size",
}
