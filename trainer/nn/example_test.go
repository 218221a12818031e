package nn_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/nn"
)

// A model of one's own is modules that a builder has made parameters and sites for. Its Body
// is what the patcher and the optimizer see.
func ExampleBuilder() {
	const vocab, dim = 10, 4
	b := nn.NewBuilder(autograd.Heap{})
	embed := nn.NewEmbedding(b, "embed", vocab, dim, -1)
	norm := nn.NewRMSNorm(b, "norm", "norm", dim, 1e-6)
	head := nn.NewLinear(b, "head", dim, vocab, false)
	if err := b.Err(); err != nil {
		fmt.Println(err)
		return
	}
	body := b.Body()

	c, err := nn.NewContext(autograd.Heap{}, 1, 3, 3) // one row of three tokens
	if err != nil {
		fmt.Println(err)
		return
	}
	program, err := body.Compile(c, nn.CrossEntropy(c, head.Forward(c, norm.Forward(c, embed.Forward(c)))), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer program.Close()
	copy(program.Batch.IDs, []int32{1, 2, 3})
	copy(program.Batch.Labels, []int32{1, 2, 3})
	program.Batch.Divisor[0] = 2 // tokens that have a next one
	loss, err := program.Forward(context.Background())
	fmt.Printf("%.4f %v\n", loss, err) // weights of zero: log(vocab)
	for _, s := range body.Sites() {
		fmt.Println(s.Path, s.Op)
	}
	// Output:
	// 2.3026 <nil>
	// norm rms_norm
	// head linear
}
