package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func TestNewIDsSortByTime(t *testing.T) {
	var ids []string
	for range 1000 {
		ids = append(ids, pawl.NewID())
		for start := time.Now(); time.Since(start) < time.Microsecond; {
		}
	}
	if !slices.IsSorted(ids) {
		t.Fatal("ids made later sort earlier")
	}
	if id := ids[0]; len(id) != 36 || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Fatalf("%s is not a UUID of version 7", id)
	}
}

func TestEmitIDDependsOnParentAndIndex(t *testing.T) {
	a := pawl.EmitID("a", 1)
	if a != pawl.EmitID("a", 1) {
		t.Fatal("not the same again")
	}
	for _, other := range []string{pawl.EmitID("a", 2), pawl.EmitID("b", 1), pawl.EmitID("a\x01", 0)} {
		if a == other {
			t.Fatal("two of one id")
		}
	}
}

func TestMessageLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	many := map[string]string{}
	for i := range pawl.MaxHeaders + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]struct {
		m     pawl.Message
		field string // empty: fine
	}{
		"plain":          {pawl.Message{Topic: "t"}, ""},
		"no topic":       {pawl.Message{}, "topic"},
		"slash in topic": {pawl.Message{Topic: "a/b"}, "topic"},
		"retry for":      {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderRetryFor: "48h"}}, ""},
		"attempts":       {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderAttempts: "1000"}}, ""},
		"bad attempts": {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderAttempts: "1001"}},
			"header " + pawl.HeaderAttempts},
		"timeout": {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderTimeout: "1m30s"}}, ""},
		"bad timeout": {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderTimeout: "0s"}},
			"header " + pawl.HeaderTimeout},
		"bad retry for": {pawl.Message{Topic: "t", Headers: map[string]string{pawl.HeaderRetryFor: "2d"}},
			"header " + pawl.HeaderRetryFor},
		"longest topic":  {pawl.Message{Topic: long(pawl.MaxTopic)}, ""},
		"long topic":     {pawl.Message{Topic: long(pawl.MaxTopic + 1)}, "topic"},
		"longest id":     {pawl.Message{Topic: "t", ID: long(pawl.MaxID)}, ""},
		"long id":        {pawl.Message{Topic: "t", ID: long(pawl.MaxID + 1)}, "id"},
		"NUL in id":      {pawl.Message{Topic: "t", ID: "a\x00"}, "id"},
		"broken id":      {pawl.Message{Topic: "t", ID: "\xff"}, "id"},
		"empty key":      {pawl.Message{Topic: "t", Key: []byte{}}, "key"},
		"binary key":     {pawl.Message{Topic: "t", Key: []byte{0, 255}}, ""},
		"long key":       {pawl.Message{Topic: "t", Key: make([]byte, pawl.MaxKey+1)}, "key"},
		"priority 100":   {pawl.Message{Topic: "t", Priority: 100}, ""},
		"priority 101":   {pawl.Message{Topic: "t", Priority: 101}, "priority"},
		"priority -1":    {pawl.Message{Topic: "t", Priority: -1}, "priority"},
		"largest body":   {pawl.Message{Topic: "t", Body: make([]byte, pawl.MaxBody)}, ""},
		"large body":     {pawl.Message{Topic: "t", Body: make([]byte, pawl.MaxBody+1)}, "body"},
		"negative delay": {pawl.Message{Topic: "t", Delay: -1}, "delay"},
		"many headers":   {pawl.Message{Topic: "t", Headers: many}, "headers"},
		"large headers": {pawl.Message{Topic: "t", Headers: map[string]string{"a": long(pawl.MaxHeaderLen)}},
			"headers"},
		"nameless header":   {pawl.Message{Topic: "t", Headers: map[string]string{"": "x"}}, "headers"},
		"broken header":     {pawl.Message{Topic: "t", Headers: map[string]string{"a": "\xff"}}, "headers"},
		"scope without key": {pawl.Message{Topic: "t", Unique: pawl.Unique{Scope: "s"}}, "unique key"},
		"unique for ever":   {pawl.Message{Topic: "t", Unique: pawl.Unique{Key: "k", For: pawl.Forever}}, ""},
		"unique before now": {pawl.Message{Topic: "t", Unique: pawl.Unique{Key: "k", For: -1}}, "unique key"},
	} {
		err := c.m.Validate()
		bad, _ := errors.AsType[*pawl.InvalidError](err)
		if (err != nil) != (c.field != "") || err != nil && bad.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckEmit(t *testing.T) {
	err := pawl.CheckEmit(pawl.Message{Topic: "t", Delay: -1}, pawl.Message{Topic: "t", Priority: 101})
	if got, want := fmt.Sprint(err), `emit [1] to topic "t": priority is 101; it goes from 0 to 100`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := pawl.CheckEmit(pawl.Message{Topic: "t"}); err != nil {
		t.Error(err)
	}
}

// TestEmitsAndMarksTakeTimesThatAreOver: the work is done, and what its handler counts from now may be negative.
func TestEmitsAndMarksTakeTimesThatAreOver(t *testing.T) {
	m := pawl.Message{Topic: "t", Delay: -1, Unique: pawl.Unique{Key: "k", For: -time.Hour}}
	m.RetryFor(-time.Hour)
	m.LimitTime(-time.Hour)
	if err := pawl.CheckEmit(m); err != nil {
		t.Error(err)
	}
	doorbell := pawl.Message{Topic: "t", Unique: pawl.Unique{Key: "k", For: pawl.UntilClaimed}}
	var d pawl.Delivery
	d.Emit(m, doorbell)
	d.Mark(pawl.Mark{Scope: "s", Key: "k", For: -time.Hour, If: pawl.AnyVersion})
	emitted, mark := d.Emitted(), d.Marked()[0]
	for i := range emitted {
		if err := emitted[i].Validate(); err != nil {
			t.Error(err)
		}
	}
	if err := mark.Validate(); err != nil {
		t.Error(err)
	}
	// 0 is without end, or what the topic says.
	for what, d := range map[string]time.Duration{"unique key": emitted[0].Unique.For, "mark": mark.For,
		"retries": emitted[0].RetriedFor(), "time limit": emitted[0].TimeLimit()} {
		if d <= 0 || d > time.Millisecond {
			t.Errorf("%s: %v", what, d)
		}
	}
	if emitted[1].Unique != doorbell.Unique {
		t.Errorf("%+v", emitted[1].Unique)
	}
}

func TestDescribeTakesTheOutermostThatSaysSomething(t *testing.T) {
	root := errors.New("refused")
	err := fmt.Errorf("fetch: %w", pawl.Throttled(pawl.OfKind("Download", root), time.Minute))
	err = pawl.OfKind("Request", fmt.Errorf("page: %w", err))
	d := pawl.Describe(err)
	if d.Kind != "Request" || d.Class != pawl.ClassThrottled || d.After != time.Minute || !errors.Is(d.Err, root) {
		t.Fatalf("%+v", d)
	}
	if d := pawl.Describe(root); d.Class != pawl.ClassTransient || d.Kind != "" {
		t.Fatalf("unknown error: %+v", d)
	}
	if pawl.Permanent(nil) != nil || pawl.OfKind("x", nil) != nil || pawl.Throttled(nil, 1) != nil {
		t.Fatal("a nil error became one")
	}
}

func TestTypedFailsForGoodWhatDoesNotDecode(t *testing.T) {
	h := pawl.Typed(func(b []byte, v *int) error { return json.Unmarshal(b, v) },
		func(_ context.Context, v int, d *pawl.Delivery) error {
			d.Emit(pawl.Message{Topic: "next", Body: fmt.Append(nil, v+1)})
			return nil
		})
	d := &pawl.Delivery{Message: pawl.Message{Body: []byte("41")}}
	if err := h.Handle(t.Context(), d); err != nil || string(d.Emitted()[0].Body) != "42" {
		t.Fatal(err, d.Emitted())
	}
	d.Body = []byte("{")
	f := pawl.Describe(h.Handle(t.Context(), d))
	if f.Class != pawl.ClassPermanent || f.Kind != pawl.KindDecode {
		t.Fatalf("%+v", f)
	}
}

func TestChainPutsTheFirstOutside(t *testing.T) {
	var calls []string
	wrap := func(name string) pawl.Middleware {
		return func(h pawl.Handler) pawl.Handler {
			return pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
				calls = append(calls, name)
				return h.Handle(ctx, d)
			})
		}
	}
	h := pawl.Chain(pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil }), wrap("a"), wrap("b"))
	if err := h.Handle(t.Context(), &pawl.Delivery{}); err != nil || !slices.Equal(calls, []string{"a", "b"}) {
		t.Fatal(err, calls)
	}
}

func TestATopicThatIsNoNameSaysWhichCharacterItHolds(t *testing.T) {
	const made = "; a topic is made of A-Z a-z 0-9 . _ -"
	for name, want := range map[string]string{
		"日本":        `topic "日本" holds '日'` + made,
		"a b":       `topic "a b" holds ' '` + made,
		"a\xe6b":    `topic "a\xe6b" holds byte 0xe6, which is no UTF-8` + made,
		"a\uFFFD":   `topic "a�" holds '�'` + made,
		"\xe6":      `topic "\xe6" holds byte 0xe6, which is no UTF-8` + made,
		"a.b_c-9.Z": "",
	} {
		got := ""
		if err := pawl.ValidTopic(name); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func TestFactsOfAFailure(t *testing.T) {
	inner := pawl.WithAttrs(errors.New("gone"), map[string]string{"status": "410", "host": "a"})
	err := fmt.Errorf("fetch: %w", pawl.Permanent(pawl.WithAttrs(inner, map[string]string{"status": "404"})))
	f := pawl.Describe(err)
	if f.Class != pawl.ClassPermanent || f.Attrs["status"] != "404" || f.Attrs["host"] != "a" || len(f.Attrs) != 2 {
		t.Fatalf("described as %+v", f)
	}
	if pawl.WithAttrs(nil, map[string]string{"a": "b"}) != nil {
		t.Fatal("facts made an error of nil")
	}
}

// TestAFailureWithoutAnErrorHasAText: one made by hand kept its class only where nobody asked for
// its text.
func TestAFailureWithoutAnErrorHasAText(t *testing.T) {
	f := &pawl.Failure{Class: pawl.ClassPermanent, Kind: "Parser"}
	d := pawl.Describe(fmt.Errorf("wrapped: %w", f))
	if f.Error() != "permanent failure Parser" || d.Class != pawl.ClassPermanent || d.Kind != "Parser" {
		t.Errorf("%q, %+v", f.Error(), d)
	}
	if text := (&pawl.Failure{}).Error(); text != "transient failure" {
		t.Errorf("%q", text)
	}
}
