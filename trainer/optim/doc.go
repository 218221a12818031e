// Package optim changes parameters from gradients: AdamW, also with moments in 8 bits, Adafactor, Lion,
// SGD and Muon, clipping by the global norm, and learning-rate schedules.
//
// A step is three calls, because the norm is also a number that people watch:
//
//	norm := optim.GlobalNorm(grads)
//	opt.Step(schedule.At(t), optim.ClipCoefficient(norm, 1.0))
//
// Gradients and arithmetic are float32, parameters float32 or bfloat16, and moments what the
// optimizer has; whatever is computed once a step, such as bias corrections and the norm, is
// float64. Results are the same bits for
// any number of threads; a step of AdamW with the same coefficients gives them on every machine. Of
// these, math.Pow and math.Cos may give other last bits, of float64, on other processors.
package optim
