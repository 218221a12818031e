package checkpoint_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// A model folder is built under a temporary name, so that a crash never leaves half
// of one under the name that the user asked for.
func Example() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	out := filepath.Join(root, "my-model")
	folder, err := checkpoint.NewFolder(out)
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Abort()
	weights := []checkpoint.Named{{Name: "norm.weight", Tensor: core.FromFloat32([]float32{1, 2, 3}, 3)}}
	if err := checkpoint.Write(folder.Path(checkpoint.SingleFile), weights, nil); err != nil {
		log.Fatal(err)
	}
	if err := folder.Commit(); err != nil {
		log.Fatal(err)
	}

	model, err := checkpoint.OpenDir(out)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	for _, name := range model.Names() {
		t, _ := model.Tensor(name)
		fmt.Println(name, t.DType, t.Shape, t.Float32s())
	}
	// Output: norm.weight float32 [3] [1 2 3]
}
