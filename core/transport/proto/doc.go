// Package proto holds the generated code of kernel.proto, in which requests go to a plugin
// where there is no doorbell. It is used by package transport; core/plugin writes the two
// messages by hand and is tested against it.
//
// To regenerate, install protoc (Debian's protobuf-compiler, 3.21.12), then
// google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 and
// google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2 on the PATH, and run go generate.
package proto

//go:generate protoc --go_out=paths=source_relative:. --go-grpc_out=paths=source_relative:. kernel.proto
