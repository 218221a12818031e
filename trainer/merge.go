package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// Merge writes to the folder out, which must not exist or be empty, the model of a folder
// with an adapter merged into its weights, in the dtypes of the model's files, and with the
// chat template that the adapter was trained with, if its folder has one. The folder
// appears under its name only when it is complete; when ctx ends before it is written, nothing
// is. What bitsandbytes has quantised is quantised again, as it was; the warning then says by
// how much that rounds, and is "" otherwise.
func Merge(ctx context.Context, model, adapter, out string, mem core.Memory) (warning string, err error) {
	claim, err := checkpoint.NewClaim(out)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	folder, err := checkpoint.NewFolder(out)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, folder.Abort()) }() // which does nothing after a commit
	m, err := models.LoadWith(model, mem, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
	if err != nil {
		return "", err
	}
	defer m.Free()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := m.Merge(); err != nil {
		return "", err
	}
	files, err := folderFiles(model, adapter)
	if err != nil {
		return "", err
	}
	var extended []byte
	if slices.ContainsFunc(files, func(f File) bool { return f.Name == tokenizerFile }) {
		_, _, extended, err = Config{Model: model, LoRA: lora.Config{Adapter: adapter}}.vocabulary()
	}
	if err != nil {
		return "", err
	}
	if extended != nil {
		files = withTokenizer(files, extended)
	}
	saved, err := m.Saved()
	if err != nil {
		return "", fmt.Errorf("trainer: save %s: %w", out, err)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := writeModel(folder, saved, files); err != nil {
		return "", fmt.Errorf("trainer: save %s: %w", out, err)
	}
	if m.Rounding != nil {
		warning = m.Rounding.String()
	}
	return warning, folder.Commit()
}
