package demo

import (
	"math/rand/v2"
	"strings"
)

// Example is one line of the corpus: the model reads Prompt and must go on with Want.
type Example struct {
	Prompt string // "one wug, two "
	Want   string // "wugs"
}

const (
	corpusSeed     = 1958
	trainWords     = 8000
	heldWords      = 96 // and those of the original test
	longestWord    = 7
	longestExample = 28 // tokens, with those that begin and end a text
)

// Made-up words are an onset, sometimes a vowel and a consonant, and a rime. The lists
// are picked by hand so that words are easy to say and not rude.
const (
	onsets = "b bl br dr fl g gl gr l m pl r sm sn st t thr tr v w z"
	links  = "b d g l m n r t v z"
	rimes  = "ab eb ib ob ub id od ud ug ig im om um en in on un ot ut " + // double before ed
		"eck ock ing ong end ond ist ust elt olt elm arn orm urk ow oy ey " + // do not
		"ame ide ove une ile oke " +
		"ass ess oss ish esh osh utch etch ax ix ox ex uzz " + // hiss
		"aby edy oly uny ory avy"
)

// berko returns examples with words from the original test, none of them trained on.
func berko() []Example {
	return []Example{noun("wug"), verb("zib"), noun("tass"), verb("mot"), noun("lun"), verb("gling"), noun("gutch"),
		verb("bod")}
}

func noun(word string) Example { return Example{"one " + word + ", two ", plural(word)} }

func verb(word string) Example { return Example{"to " + word + ", it ", past(word)} }

// corpus returns the examples to train on and those held out. No word of one is in the
// other, neither as a noun nor as a verb.
func corpus() (train, held []Example) {
	rng := rand.New(rand.NewPCG(corpusSeed, 0))
	held = berko()
	seen := map[string]bool{}
	for _, e := range held {
		seen[strings.TrimSuffix(strings.Fields(e.Prompt)[1], ",")] = true
	}
	for n := 0; n < heldWords+trainWords; {
		word := makeWord(rng)
		if seen[word] {
			continue
		}
		seen[word] = true
		if n < heldWords {
			held = append(held, noun(word), verb(word))
		} else {
			train = append(train, noun(word), verb(word))
		}
		n++
	}
	return train, held
}

func makeWord(rng *rand.Rand) string {
	pick := func(list string) string {
		items := strings.Fields(list)
		return items[rng.IntN(len(items))]
	}
	for {
		word := pick(onsets)
		if rng.IntN(2) == 0 {
			word += pick("a e i o u") + pick(links)
		}
		if word += pick(rimes); len(word) <= longestWord {
			return word
		}
	}
}
