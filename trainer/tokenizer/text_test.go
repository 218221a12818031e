package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// forms are the normal forms, each with the form that only decomposes.
var forms = []struct {
	name            string
	form, decompose norm.Form
}{
	{"NFC", norm.NFC, norm.NFD}, {"NFD", norm.NFD, norm.NFD},
	{"NFKC", norm.NFKC, norm.NFKD}, {"NFKD", norm.NFKD, norm.NFKD},
}

// longForm is the way that newForm takes for texts with long runs.
func longForm(form, decompose norm.Form, text string) string {
	chars := canonicalOrder(decompose, text)
	if form != decompose {
		chars = composed(chars)
	}
	return string(chars)
}

func TestLongWayOfNormalizationEqualsPackageNorm(t *testing.T) {
	alphabet := []rune("abéÅ\u0301\u0323\u0308\u0344\u0345\u0f71\u0f72\u0f73\u09c7\u09be" +
		"\u1100\u1161\u11a8가각ﬁ①ｱﾞ\u212b\u3099か\u05b0\U0001d15e\u0958日")
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		text := make([]rune, rng.IntN(12))
		for i := range text {
			text[i] = alphabet[rng.IntN(len(alphabet))]
		}
		for _, f := range forms {
			want := f.form.String(string(text))
			if got := longForm(f.form, f.decompose, string(text)); got != want {
				t.Fatalf("seed %d: %s of %+q is %+q, want %+q", seed, f.name, string(text), got, want)
			}
		}
	}
}

func TestNormalFormsKeepLongRunsOfMarksTogether(t *testing.T) {
	marks := strings.Repeat("\u0323\u0301", 20)
	for name, c := range map[string]struct{ text, want string }{
		"marks":  {"a" + marks, "ạ" + strings.Repeat("\u0323", 19) + strings.Repeat("\u0301", 20)},
		"vowels": {"\u09c7" + strings.Repeat("\u09be", 40), "\u09cb" + strings.Repeat("\u09be", 39)},
	} {
		if got := newForm(norm.NFC, norm.NFD)(c.text); got != c.want {
			t.Errorf("%s: got %+q, want %+q", name, got, c.want)
		}
	}
}

func TestDialectRefusesWhatTheLibrariesReadDifferently(t *testing.T) {
	for expr, bad := range map[string]string{
		`\w`: `\w`, `a\b`: `\b`, `\R`: `\R`, `[\w]`: `\w`, `(a)\1`: `\1`,
		`[a[b]]`: `[`, `[[:alpha:]]`: `[`, `[a-z&&b]`: `&&`,
		`a{1,2}+`: `}+`, `a{,2}`: `{,`,
		`(?m:.)`: `(?m`, `a(?i)b`: `(?i`, `(?s-i:.)`: `(?s-i`, `(?P<n>a)`: `(?P`,
	} {
		err := checkDialect(expr)
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(bad, `\`, `\\`)) {
			t.Errorf("%s: %v, want an error that quotes %s", expr, err, bad)
		}
	}
	for _, expr := range []string{
		gpt2Words,
		`(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+`,
		`(?i)a(?-i:b)`, `(?<=a)b(?<n>c)(?>d)`, `[]a]&&[^]b]`, `\[[\[\]]\{,`, `\p{L}+\P{L}*+\x41`, `\`, `\p{`, `[`,
	} {
		if err := checkDialect(expr); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

// What tokenizers 0.23 makes of expressions that match nothing, too: a match of nothing right behind another is none.
func TestMatchesOfNothing(t *testing.T) {
	for expr, texts := range map[string]map[string]string{
		"a*":    {"baab": "-b-b-", "a": "-", "éaé": "-é-é-", "b": "-b-"},
		"b?":    {"baab": "-a-a-", "a": "-a-", "éaé": "-é-a-é-", "b": "-"},
		"a|$":   {"baab": "b--b-", "a": "-", "éaé": "é-é-", "b": "b-"},
		"(?=b)": {"baab": "-baa-b", "a": "a", "éaé": "éaé", "b": "-b"},
		"$":     {"baab": "baab-", "a": "a-"},
	} {
		replace, err := newReplace(&patternSpec{Regex: &expr}, new("-"), "normalizer")
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if got := replace(text); got != want {
				t.Errorf("%s in %q: %q, want %q", expr, text, got, want)
			}
		}
	}
}
