module example.com/own_model

go 1.26

require github.com/seed98097648/tune v0.0.0

replace github.com/seed98097648/tune => ../..
