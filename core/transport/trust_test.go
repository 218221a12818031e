//go:build unix

package transport

// Owners and modes of files, and scripts: what Windows does not have.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/wire"
)

// telltale is a program that leaves a trace as soon as it runs; ran says whether it has.
func telltale(t *testing.T) (path string, ran func() bool) {
	t.Helper()
	dir := t.TempDir()
	path, trace := filepath.Join(dir, "telltale"), filepath.Join(dir, "trace")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n: > "+trace+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, func() bool {
		_, err := os.Stat(trace)
		return err == nil
	}
}

func TestOfALockedFolderNothingElseRuns(t *testing.T) {
	path, ran := telltale(t)
	lock := func(sum string) *trust.Lock {
		return &trust.Lock{File: "my.lock",
			Entries: []trust.Entry{{Name: "telltale", Version: "1", SHA256: sum, Path: "telltale"}}}
	}
	cases := map[string]struct {
		lock *trust.Lock
		want string
	}{
		"unknown": {&trust.Lock{File: "my.lock"}, "is not in my.lock"},
		"changed": {lock(strings.Repeat("0", 64)), "has changed: my.lock locks telltale 1 with sha256 000000000000"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := quiet(Options{Lock: tc.lock}).Open(context.Background(), path)
			if !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if ran() {
				t.Error("it ran all the same")
			}
		})
	}
	sum := checksumOf(t, path)
	if _, err := quiet(Options{Lock: lock(sum)}).Open(context.Background(),
		path); errors.Is(err, core.ErrUntrusted) || !ran() {
		t.Errorf("what is locked was not started: %v", err)
	}
}

// checksumOf returns the SHA-256 of an executable, hexadecimal.
func checksumOf(t *testing.T, path string) string {
	t.Helper()
	exe, err := openExecutable(portable, path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	sum, err := exe.checksum()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestALockedPluginKeepsItsName(t *testing.T) {
	path := pluginPath(t, "plugin")
	sum := checksumOf(t, path)
	lock := &trust.Lock{File: "my.lock",
		Entries: []trust.Entry{{Name: "test_kernels", Version: "1.2.3", SHA256: sum, Path: "p"}}}
	p, err := quiet(Options{Lock: lock}).Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	lock.Entries[0].Name = "npu_fused_rope"
	if _, err := quiet(Options{Lock: lock}).Open(context.Background(),
		path); !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), `calls itself "test_kernels"`) {
		t.Errorf("error %v", err)
	}
}

// TestAPluginThatOthersCanWriteIsNotStarted holds for every start, the first and those
// after a death.
func TestAPluginThatOthersCanWriteIsNotStarted(t *testing.T) {
	path, ran := telltale(t)
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := quiet(Options{}).Open(context.Background(),
		path); !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), "chmod o-w "+path) {
		t.Errorf("error %v", err)
	}
	if ran() {
		t.Error("it ran all the same")
	}

	counted(t)
	p := open(t, quiet(Options{}))
	if err := os.Chmod(filepath.Dir(p.manifest.Path), 0o777); err != nil {
		t.Fatal(err)
	}
	p.mustForward(t, "die once")
	p.wantHealth(t, core.Health{Calls: 1, Deaths: 1, Repeats: 1, Fallbacks: 1})
	if h := p.norm.Health(); !strings.Contains(h.LastError, "everybody can write to the folder") {
		t.Errorf("last error %q", h.LastError)
	}
}

// started is a plugin's process that has shaken hands, answers RPCs, and whose socket, in a folder, nobody has
// connected to.
func started(t *testing.T) (p *process, dir string) {
	t.Helper()
	exe, err := openExecutable(native, pluginPath(t, "plugin"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	sum, err := exe.checksum()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = os.MkdirTemp("", "tune-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if p, err = newProcess(quiet(Options{Portable: true}).withDefaults(), exe, sum, dir, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	if err := p.start(); err != nil {
		t.Fatalf("%v; %s", err, p.words)
	}
	return p, dir
}

// TestAProcessThatNobodyConnectedToLeavesNothing: go-plugin connects to the one it is to end, and would forget the
// connection, which goes on trying, where it knows that the process has ended.
func TestAProcessThatNobodyConnectedToLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	p, _ := started(t)
	p.link = slowLink{nil, t, p}
	p.end()
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// slowLink takes until go-plugin knows of the end of a process.
type slowLink struct {
	link
	t *testing.T
	p *process
}

func (s slowLink) hangUp(<-chan struct{}, time.Duration) error {
	eventually(s.t, "the news that the process has ended", s.p.client.Exited)
	return nil
}

func (slowLink) close() error { return nil }

// TestNobodyElseGetsAnAnswerFromAPlugin: who finds the socket while it is there needs the
// certificate that the host has made for this one process.
func TestNobodyElseGetsAnAnswerFromAPlugin(t *testing.T) {
	p, _ := started(t)
	address := p.client.ReattachConfig().Addr
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	forged := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	for name, creds := range map[string]credentials.TransportCredentials{
		"without encryption":    insecure.NewCredentials(),
		"without a certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"with one of its own": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true,
			Certificates: []tls.Certificate{forged}}),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := grpc.NewClient("unix://"+address.String(), grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if d, err := proto.NewKernelsClient(c).Ask(ctx,
				&proto.Request{Kind: uint32(wire.Describe)}); status.Code(err) != codes.Unavailable {
				t.Errorf("the plugin says %v, %v", d, err)
			}
		})
	}
}

// TestTheSocketIsInAFolderOfTheUserAlone: and the folder goes once the host is connected.
func TestTheSocketIsInAFolderOfTheUserAlone(t *testing.T) {
	p, dir := started(t)
	address := p.client.ReattachConfig().Addr
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 || filepath.Dir(address.String()) != dir {
		t.Errorf("%s is in %s with mode %v", address, dir, info.Mode())
	}

	tmp, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	t.Setenv("TMPDIR", tmp)
	open(t, quiet(Options{Portable: true}))
	left, err := filepath.Glob(filepath.Join(tmp, "tune-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			t.Errorf("%s is still there", dir)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
