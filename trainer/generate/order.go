package generate

import (
	"context"
	"sync"
)

// ahead is how many values may be begun, of which the first is not taken yet.
const ahead = 64

// InOrder calls do for each of 0 to n-1, several at the same time, as texts of an engine are best written, and take
// with what each gave, in their order. The first error ends all of them and is returned, as is what ended ctx;
// nothing is taken after that.
func InOrder[T any](ctx context.Context, n int, do func(ctx context.Context, i int) (T, error),
	take func(i int, v T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := make(chan chan T, ahead)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		defer close(begun)
		for i := 0; i < n && ctx.Err() == nil; i++ {
			one := make(chan T, 1)
			begun <- one
			all.Go(func() {
				defer close(one)
				if v, err := do(ctx, i); err != nil {
					cancel(err)
				} else {
					one <- v
				}
			})
		}
	})
	taken := 0
	for one := range begun {
		v, ok := <-one
		if !ok || ctx.Err() != nil {
			continue // let the others end
		}
		if err := take(taken, v); err != nil {
			cancel(err)
		}
		taken++
	}
	return context.Cause(ctx)
}
