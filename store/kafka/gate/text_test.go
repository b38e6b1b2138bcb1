package gate

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A text fits where 4,096 characters do.
const _ = uint(4000 - MaxText)

// fullExtra is as long as it can be.
func fullExtra(base int64) Extra {
	e := Extra{Open: true, Horizon: base ^ math.MinInt64, Crashes: 255, Source: math.MaxUint32}
	for i := range int64(MaxTries + 1) {
		e.Tries = append(e.Tries, Try{base + i<<59, 255})
	}
	return e
}

// pattern is a checkpoint of a full window in which the positions are finished that
// done says, by their distance from the base. The base itself is not.
func pattern(base int64, extra Extra, done func(i int64) bool) Checkpoint {
	g := New(base)
	for i := range int64(Window) {
		g.Register(base + i)
	}
	for i := int64(1); i < Window; i++ {
		if done(i) {
			g.Finish(base + i)
		}
	}
	return g.Checkpoint(extra)
}

// roundTrip returns the text of a checkpoint that is read back as it was.
func roundTrip(tb testing.TB, c Checkpoint) string {
	tb.Helper()
	text := c.Text()
	got, err := Decode(c.Base, c.Source, text)
	if err != nil {
		tb.Fatalf("decode %q: %v", text, err)
	}
	if !reflect.DeepEqual(got, c) {
		tb.Fatalf("decoded %+v, want %+v", got, c)
	}
	if len(text) > MaxText {
		tb.Fatalf("text of %d bytes, more than %d", len(text), MaxText)
	}
	return text
}

// withFull is the length of the text with the longest extra.
func withFull(tb testing.TB, c Checkpoint) int {
	tb.Helper()
	c.Extra = fullExtra(c.Base)
	c.Tries = c.tries()
	return len(roundTrip(tb, c))
}

func TestEveryPatternFits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	longest := 0
	try := func(done func(int64) bool) {
		base := r.Int64N(1e12) - 1e11
		c := pattern(base, Extra{Source: r.Uint32()}, done)
		roundTrip(t, c)
		longest = max(longest, withFull(t, c))
	}
	for period := int64(1); period <= 300; period += 1 + period/8 { // blocks, from alternating to long ones
		try(func(i int64) bool { return i/period%2 == 1 })
		try(func(i int64) bool { return i%(period+1) == period })
		try(func(i int64) bool { return i%(period+1) != period })
	}
	for range 40 { // a share of its own for each stretch
		shares := make([]float64, 1+r.IntN(40))
		for i := range shares {
			shares[i] = r.Float64()
		}
		try(func(i int64) bool { return r.Float64() < shares[int(i)*len(shares)/Window] })
	}
	t.Logf("the longest text has %d bytes of %d", longest, MaxText)
	if longest < MaxText-60 { // eight tries cannot all be at the greatest distance from each other
		t.Errorf("the longest text has %d bytes: MaxText is said too high, or the patterns are tame", longest)
	}
}

func TestCommonTextsAreShort(t *testing.T) {
	extra := Extra{Open: true, Source: 0xfeedbeef, Horizon: 7e9 + Window - 1, Crashes: 1, Tries: []Try{{7e9, 2}}}
	for _, row := range []struct {
		name string
		most int
		done func(int64) bool
	}{
		{"nothing above the base", 40, func(int64) bool { return false }},
		{"one stuck head", 40, func(int64) bool { return true }},
		{"two stuck", 44, func(i int64) bool { return i != 5000 }},
		{"one finished far away", 40, func(i int64) bool { return i == Window-1 }},
	} {
		if n := len(roundTrip(t, pattern(7e9, extra, row.done))); n > row.most {
			t.Errorf("%s: %d bytes, more than %d", row.name, n, row.most)
		}
	}
	if n := len(New(7e9).Checkpoint(Extra{Source: 1}).Text()); n > 20 {
		t.Errorf("idle: %d bytes", n)
	}
}

func TestEqualCheckpointsHaveEqualTexts(t *testing.T) {
	a, b := New(0), New(-5)
	register(t, a, upTo(0, 200)...)
	for _, pos := range []int64{3, 100, 4} {
		a.Finish(pos)
	}
	register(t, b, -5, 0)
	b.Finish(-5)
	register(t, b, upTo(1, 200)...)
	for _, pos := range []int64{100, 3, 4} {
		b.Finish(pos)
	}
	first := a.Checkpoint(Extra{Source: 1, Tries: []Try{{9, 1}, {2, 3}, {2, 1}, {3, 7}, {8, 0}, {-4, 9}}})
	second := b.Checkpoint(Extra{Source: 1, Tries: []Try{{2, 3}, {9, 1}}})
	if !reflect.DeepEqual(first, second) || first.Text() != second.Text() {
		t.Errorf("%+v %q, and %+v %q", first, first.Text(), second, second.Text())
	}
	for name, change := range map[string]func(*Checkpoint){
		"base":    func(c *Checkpoint) { c.Base = -1 },
		"open":    func(c *Checkpoint) { c.Open = true },
		"horizon": func(c *Checkpoint) { c.Horizon = 199 },
		"crashes": func(c *Checkpoint) { c.Crashes = 1 },
		"source":  func(c *Checkpoint) { c.Source = 2 },
		"tries":   func(c *Checkpoint) { c.Tries = []Try{{2, 3}, {9, 2}} },
	} {
		changed := first
		if change(&changed); changed.Text() == first.Text() {
			t.Errorf("the text does not tell of %s", name)
		}
	}
}

func TestOnlyTheLowestTriesAreKept(t *testing.T) {
	g := New(0)
	var extra Extra
	for i := range int64(20) {
		extra.Tries = append(extra.Tries, Try{19 - i, uint8(i + 1)})
	}
	c := g.Checkpoint(extra)
	if len(c.Tries) != MaxTries || c.Tries[0] != (Try{0, 20}) || c.Tries[7] != (Try{7, 13}) {
		t.Errorf("tries %v", c.Tries)
	}
	if extra.Tries[0] != (Try{19, 1}) {
		t.Error("the owner's slice was changed")
	}
	roundTrip(t, c)
}

func TestExtremesSurvive(t *testing.T) {
	for _, base := range []int64{0, 1, -1, math.MinInt64, math.MaxInt64 - Window, math.MaxInt64 - 1, math.MaxInt64} {
		for _, horizon := range []int64{0, 1, -1, math.MinInt64, math.MaxInt64} {
			e := Extra{Horizon: horizon, Source: 1, Tries: []Try{{base, 1}, {math.MaxInt64, 255}}}
			c := New(base).Checkpoint(e)
			roundTrip(t, c)
			Resume(base, c)
		}
	}
	g := New(math.MaxInt64 - 2)
	register(t, g, math.MaxInt64-2, math.MaxInt64-1)
	g.Finish(math.MaxInt64 - 1)
	if became := g.Register(math.MaxInt64); became != Full {
		t.Errorf("the number that is no position: %v", became)
	}
	c := g.Checkpoint(Extra{})
	roundTrip(t, c)
	if became := Resume(c.Base, c).Register(c.Base); became != Admitted {
		t.Error(became)
	}
}

func TestForeignTexts(t *testing.T) {
	for text, want := range map[string]error{
		"":                ErrForeign,
		"pawl":            ErrForeign,
		"pawl1":           ErrForeign,
		"pawl.":           ErrForeign,
		"pawlx1.AAAAAAAA": ErrForeign,
		"pawl1234.AAAA":   ErrForeign,
		" pawl1.AAAAAAAA": ErrForeign,
		"consumer-1-0b5f2d4e-8a2b-4c9e-9f1d-2f6f5c1f7a11": ErrForeign,
		`{"offset": 12, "metadata": "pawl1.AAAA"}`:        ErrForeign,
		"bGlnaHRz":                             ErrForeign,
		"\x01\x00\x00\x00\x00\x00\x00\x30\x39": ErrForeign,
		"\xff\xfe\x00":                         ErrForeign,
		"e\x00\x00\x00\x01":                    ErrForeign,
		strings.Repeat("A", 5000):              ErrForeign,
		"pawl2.":                               ErrVersion,
		"pawl12.AAAA":                          ErrVersion,
		"pawl1.":                               ErrDamaged,
		"pawl1.AAAAAA":                         ErrDamaged,
		"pawl1.====":                           ErrDamaged,
		"pawl1.AAAA\nAAAAAA":                   ErrDamaged,
		header + strings.Repeat("A", MaxText):  ErrDamaged,
	} {
		c, err := Decode(12, 0, text)
		if !errors.Is(err, want) || !reflect.DeepEqual(c, Checkpoint{}) {
			t.Errorf("%.40q: %v, want %v", text, err, want)
		}
	}
}

// samples are checkpoints of all forms.
func samples() []Checkpoint {
	extra := fullExtra(1000)
	extra.Source = 7
	return []Checkpoint{
		pattern(1000, Extra{Source: 7}, func(int64) bool { return false }),
		pattern(1000, Extra{Source: 7, Open: true, Horizon: 1999, Tries: []Try{{1000, 2}}}, func(int64) bool {
			return true
		}),
		pattern(1000, extra, func(i int64) bool { return i < 60 && i%2 == 0 }),
		pattern(1000, extra, func(i int64) bool { return i%1000 != 0 }),
	}
}

func TestDamageIsFound(t *testing.T) {
	for _, c := range samples() {
		text := c.Text()
		for _, base := range []int64{c.Base - 1, c.Base + 1, 0, -c.Base} {
			if _, err := Decode(base, c.Source, text); !errors.Is(err, ErrDamaged) {
				t.Errorf("beside base %d: %v", base, err)
			}
		}
		if _, err := Decode(c.Base, c.Source+1, text); !errors.Is(err, ErrForeign) {
			t.Errorf("of another source: %v", err)
		}
		damaged := func(how string, text string) {
			if c, err := Decode(c.Base, c.Source, text); err == nil {
				t.Errorf("%s: read as %+v", how, c)
			}
		}
		for i := range text {
			damaged("cut", text[:i])
			damaged("without a character", text[:i]+text[i+1:])
			damaged("a character twice", text[:i]+text[i:i+1]+text[i:])
			for bit := range 8 {
				b := []byte(text)
				b[i] ^= 1 << bit
				damaged("a bit turned", string(b))
			}
		}
		for _, more := range []string{"A", "AA", "AAAA", "\n", "\x00", " ", "="} {
			damaged("longer", text+more)
		}
	}
}

// sealed is the text with a body, as if it were right.
func sealed(base int64, body []byte) string {
	body = binary.LittleEndian.AppendUint32(slices.Clone(body), check(base, body))
	return header + base64.RawURLEncoding.EncodeToString(body)
}

// TestImpossibleContent has bodies with a right checksum that no gate writes.
func TestImpossibleContent(t *testing.T) {
	source := []byte{0, 0, 0, 0}
	body := func(flags byte, rest ...byte) []byte { return append(append([]byte{flags}, source...), rest...) }
	for name, b := range map[string][]byte{
		"nothing":                  {},
		"no source":                {0, 1, 2},
		"an unknown flag":          body(0x80),
		"no horizon":               body(flagHorizon),
		"horizon of none":          body(flagHorizon, 24),
		"an endless horizon":       body(flagHorizon, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"no crashes":               body(flagCrashes, 0),
		"no tries":                 body(flagTries, 0),
		"too many tries":           body(flagTries, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		"tries that are cut":       body(flagTries, 2, 1, 1, 1),
		"a try with no count":      body(flagTries, 1, 1, 0),
		"one position tried twice": body(flagTries, 2, 1, 1, 0, 1),
		"a finished base":          body(0, 0, 5),
		"an unfinished end":        body(0, 5),
		"an empty run":             body(0, 1, 0, 1, 1),
		"a number in two bytes":    body(0, 0x81, 0, 1),
		"a run out of the window":  body(0, 1, 0x80, 0x80, 1),
		"runs out of the window":   body(0, 0xff, 0x7f, 2),
		"a great run":              body(0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"an empty bitmap":          body(flagBitmap),
		"a zero at its end":        body(flagBitmap, 1, 0),
		"bitmap where runs do":     body(flagBitmap, 0xff, 0xff, 0xff),
		"runs where a bitmap does": body(0, 1, 1, 1, 1, 1, 1, 1, 1),
		"runs one byte longer":     body(0, 1, 5),
		"a bitmap too long":        append(body(flagBitmap), make([]byte, maxFinished+1)...),
		"a bit out of the window": append(append(body(flagBitmap), bytes.Repeat([]byte{0x55}, maxFinished-1)...),
			0xd5),
	} {
		if c, err := Decode(-12, 0, sealed(-12, b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %+v", name, err, c)
		}
	}
	for name, c := range map[string]struct {
		base int64
		body []byte
	}{
		"marks beyond all numbers": {math.MaxInt64 - 3, body(flagBitmap, 0x1f)},
		"tries beyond all numbers": {math.MaxInt64 - 3, body(flagTries, 1, 9, 1)},
	} {
		if _, err := Decode(c.base, 0, sealed(c.base, c.body)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode gives a text as it is, and a body with the right checksum.
func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(c.Base, c.Source, c.Text(), c.appendBody(nil))
	}
	f.Add(int64(0), uint32(0), "pawl2.AAAA", []byte{})
	f.Fuzz(func(t *testing.T, base int64, source uint32, text string, body []byte) {
		for _, text := range []string{text, sealed(base, body)} {
			c, err := Decode(base, source, text)
			switch {
			case err != nil && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) &&
				!errors.Is(err, ErrDamaged):
				t.Errorf("%q: %v", text, err)
			case err != nil:
				continue
			case c.Text() != text || c.Base != base || c.Source != source || c.Len() >= Window || c.finished.has(0):
				t.Errorf("%q is read as %+v", text, c)
			}
			g := Resume(base, c)
			if again := g.Checkpoint(c.Extra); again.Text() != text {
				t.Errorf("%q is %q after a crash", text, again.Text())
			}
			if base < math.MaxInt64 && g.Register(base) != Admitted {
				t.Errorf("%q: the base is not admitted", text)
			}
		}
	})
}
