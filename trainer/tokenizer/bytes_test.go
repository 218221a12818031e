package tokenizer_test

import (
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// TestBytesOfAllTokensAreTheText, with the space that a text begins with here, whether tokens are whole characters or
// bytes of one.
func TestBytesOfAllTokensAreTheText(t *testing.T) {
	tok, err := tokenizer.Load(testdata.Shared(t, "data", "models", "stories260K"))
	if err != nil {
		t.Fatal(err)
	}
	const text = "Once upon\na time, é🙂 \uFFFD <0x41>"
	var got []byte
	for _, id := range tok.Encode(text, false) {
		got = append(got, tok.Bytes(id)...)
	}
	if string(got) != " "+text {
		t.Errorf("%q", got)
	}
	if b := tok.Bytes(1 << 20); b != nil {
		t.Errorf("a token that is not there has %q", b)
	}
}
