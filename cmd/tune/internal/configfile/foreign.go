package configfile

import "slices"

// foreign are keys of other programs' configuration files, above all of LLaMA-Factory and of
// transformers, that stand for something tune does not have or is told in another way. What
// they are called says nothing about which key of ours would do; a sentence does.
var foreign = []struct {
	sentence string
	keys     []string
}{
	{"the optimizers are those of optim, which have no such choice: leave it out", []string{
		"optimizer", "optim_args", "optim_target_modules", "use_adam_mini", "use_apollo", "apollo_rank",
		"use_badam", "badam_mode", "use_galore", "galore_rank"}},
	{"the schedule's parameters are lr_scheduler_kwargs, or schedule_args",
		[]string{"min_lr_ratio", "min_lr", "num_cycles", "lr_end"}},
	{"gradients are clipped with max_grad_norm", []string{"gradient_clipping", "gradient_clip", "grad_clip"}},
	{"the length of a row is cutoff_len, or seq", []string{"max_length", "max_seq_length", "max_seq_len",
		"model_max_length", "sequence_len", "block_size"}},
	{"the rows of a batch are per_device_train_batch_size, or batch",
		[]string{"batch_size", "micro_batch_size", "train_batch_size"}},
	{"a seed for the data alone does not exist; seed is for everything random", []string{"data_seed"}},
	{"rows are always shuffled: leave it out", []string{"disable_shuffling"}},
	{"adapters are turned on by finetuning_type: lora, or by lora_rank", []string{"use_lora"}},
	{"adapters are for linear layers and have no biases of their own", []string{"lora_bias"}},
	{"modules that are trained as they are, beside adapters, are train_modules, or additional_target",
		[]string{"lora_modules_to_save"}},
	{"this kind of adapter is not supported: leave it out", []string{"module_dropout", "oft_rank"}},
	{"the layers that are trained are train_layers, or freeze_trainable_layers", []string{"num_layer_trainable"}},
	{"no layers are added to a model: leave it out", []string{"use_llama_pro"}},
	{"the reference is the model that the run starts from, or for adapters the model without them: leave it out",
		[]string{
			"ref_model", "ref_model_adapters", "ref_model_quantization_bit"}},
	{"there is no model of rewards: preferences are trained on directly; leave it out", []string{
		"reward_model", "reward_model_type", "reward_model_adapters", "pref_bco_weight"}},
	{"the loss is cross-entropy, with label_smoothing if that is given: leave it out", []string{
		"use_dft_loss"}},
	{"the weights of the base are quantised with quantization_bit, or base_int8 and base_nf4, and in no other way",
		[]string{"load_in_4bit", "load_in_8bit"}},
	{"the model keeps its positions and its attention as config.json has them: leave it out", []string{
		"rope_scaling", "shift_attn", "mixture_of_depths",
		"train_from_scratch"}},
	{"data is read from files that are here, and kept nowhere else: leave it out",
		[]string{"cache_dir", "tokenized_path", "streaming", "buffer_size"}},
	{"nothing is loaded from a hub or uploaded to one: leave it out", []string{
		"push_to_hub", "hub_model_id", "hub_token", "hf_hub_token", "model_revision", "ms_hub_token",
		"export_hub_model_id"}},
	{"a model writes with tune generate: leave it out here", []string{
		"temperature", "top_k", "top_p", "do_sample", "num_beams", "repetition_penalty", "infer_backend",
		"infer_dtype"}},
	{"an adapter is merged with tune merge: leave it out here", []string{"export_dir", "export_size", "export_device",
		"export_quantization_bit"}},
	{"a run ends early with early_stopping_steps, or early_stopping, which count evaluations",
		[]string{"early_stopping_patience"}},
	{"evaluations have the loss, and a score with metric", []string{"compute_metrics"}},
	{"only text can be trained on: leave it out", []string{"image_max_pixels", "video_max_pixels", "freeze_vision_tower",
		"freeze_multi_modal_projector", "visual_inputs"}},
	{"the run is watched with serve, report_to or the report: leave it out",
		[]string{"swanlab_project", "wandb_project", "log_level"}},
	{"tune runs on the processors of one machine: leave it out", []string{
		"fsdp", "fsdp_config", "master_port", "no_cuda", "use_cpu", "use_mps_device", "torch_compile", "tf32",
		"bf16_full_eval", "fp16_full_eval", "fp16_opt_level",
		"auto_find_batch_size", "sequence_parallel_size", "vllm_gpu_util", "dataloader_pin_memory",
		"ddp_find_unused_parameters"}},
}

// ForeignSentence says what to do about a key of another program; it is empty for any other.
func ForeignSentence(key string) string {
	for _, f := range foreign {
		if slices.Contains(f.keys, key) {
			return f.sentence
		}
	}
	return ""
}

// spacedTemplates says how built-in chat templates differ from LLaMA-Factory's of the same names,
// for a file that may have been written for that.
var spacedTemplates = map[string]string{
	"llama2": "answers stand between spaces, as the model was published, which LLaMA-Factory leaves out",
	"vicuna": "\"USER:\" and the answer have a space before them, as the model was published, which LLaMA-Factory " +
		"leaves out",
	"llama3": "messages lose white space at their ends, as the model was published, which LLaMA-Factory keeps",
}
