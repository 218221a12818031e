package tune

import (
	_ "github.com/chewxy/hm"
	_ "github.com/dlclark/regexp2/v2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/go-hclog"
	_ "github.com/hashicorp/go-plugin"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/spf13/pflag"
	_ "go.uber.org/goleak"
	_ "go4.org/unsafe/assume-no-moving-gc"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/unicode/norm"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
)
