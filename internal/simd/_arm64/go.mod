module github.com/seed98097648/tune/internal/simd/_arm64

go 1.26.0
