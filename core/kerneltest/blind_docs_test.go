package kerneltest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestDocsListEveryPlantedBug: the table of docs/verify.md names each bug, and the kind of
// case that a test here shows to find it.
func TestDocsListEveryPlantedBug(t *testing.T) {
	page, err := os.ReadFile("../../docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| bug | op |")
	table, _, _ = strings.Cut(table, "\n\n")
	all := slices.Concat(blindSizes, blindJoint, blindValues, blindJointValues)
	for name := range keptBugs {
		all = append(all, blind{name: name, kind: "4000 calls in any order", op: keptBugsOp})
	}
	for name := range contentBugs {
		all = append(all, blind{name: name, kind: "inputs known by number", op: contentBugsOp})
	}
	all = append(all, blind{name: biasOnThreads, kind: "one thread or more", op: core.Linear})
	for name := range manyBugs {
		all = append(all, blind{name: name, kind: "many inputs known by number", op: contentBugsOp})
	}
	for _, b := range all {
		if row := fmt.Sprintf("| %s | %s | %s |", b.name, b.op, b.kind); !strings.Contains(table, row) {
			t.Errorf("docs/verify.md has no row %q", row)
		}
	}
	if n := strings.Count(table, "\n|") - 1; n != len(all) {
		t.Errorf("docs/verify.md has %d bugs, the tests have %d", n, len(all))
	}
}

// TestDocsNameEveryActivation: the section of each op in docs/ops.md.
func TestDocsNameEveryActivation(t *testing.T) {
	page, err := os.ReadFile("../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range core.Ops() {
		_, section, _ := strings.Cut(string(page), "\n## "+string(op)+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, c := range kerneltest.Cases(op) {
			if !strings.Contains(section, c.Facts.Activation) {
				t.Fatalf("%s: docs/ops.md does not say what activation %s is", op, c.Facts.Activation)
			}
		}
	}
}
