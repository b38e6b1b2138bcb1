package codec_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
)

func TestTextIsThatOfTheDecoded(t *testing.T) {
	for _, c := range []codec.Config{{Compress: true}, {Offload: 1024}} {
		r := newRig(t, c)
		for i, text := range []string{"needle", "hay", "NEEDLE", "needle"} {
			r.put(msg(bytes.Replace(order(3000), []byte("Ada"), []byte(text), 1)))
			r.Advance(time.Second * time.Duration(i))
			r.kill()
		}
		for _, f := range []store.DeadFilter{{Text: "Needle M"}, {Text: "needle", Reason: "KILLED", Brief: true}} {
			if n := len(r.dead(f)); n != 3 {
				t.Errorf("%d letters with the text", n)
			}
			f.Limit = 2
			got := r.dead(f)
			if len(got) != 2 || got[0].DeadAt.After(got[1].DeadAt) || f.Brief != (got[0].Body == nil) {
				t.Errorf("with a limit: %d letters", len(got))
			}
		}
		for _, text := range []string{"sha256", "zstd", "raw;len"} {
			if got := r.dead(store.DeadFilter{Text: text}); len(got) > 0 {
				t.Errorf("%d letters have the text %q, which is the codec's", len(got), text)
			}
		}
	}
}

func TestListingsDecode(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true, Offload: 4096})
	a, b := order(3000), noise(5000, 1)
	r.put(msg(a), msg(b))
	inspector, _ := store.As[store.Inspector](r.Store, store.CanLookup)
	var got [][]byte
	for rec, err := range inspector.List(t.Context(), store.Filter{Topic: topic}) {
		r.must(err)
		if len(rec.Headers) > 0 {
			t.Errorf("listed with headers %v", rec.Headers)
		}
		got = append(got, rec.Body)
	}
	if len(got) != 2 || !bytes.Equal(got[0], a) || !bytes.Equal(got[1], b) {
		t.Fatalf("%d listed", len(got))
	}
	for range inspector.List(t.Context(), store.Filter{}) {
		break // an early end is fine
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	for _, err = range inspector.List(ctx, store.Filter{}) {
		cancel() // the second has a file to be read
	}
	wantCode(t, err, context.Canceled)
}

// TestSealedGoRoundTheWorld: what cannot be read now is exported as it is stored,
// imported again, and read when its file is back.
func TestSealedGoRoundTheWorld(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	large := noise(9000, 1)
	id := r.put(msg(large))[0]
	r.kill()
	stored, file := r.stored(id), r.file()
	r.must(os.Rename(file, file+"-away"))
	got := r.dead(store.DeadFilter{Text: "is missing"})
	if len(got) != 1 || !strings.Contains(got[0].Headers[codec.SealedHeader], "is missing") ||
		got[0].Headers[codec.Header] != stored.Headers[codec.Header] {
		t.Fatalf("sealed: %+v", got)
	}
	if shown := r.seen(id); shown.Headers[codec.SealedHeader] == "" {
		t.Fatalf("shown with headers %v", shown.Headers)
	}
	headers := maps.Clone(got[0].Headers)
	r.none(r.letters().Purge(t.Context(), id))
	r.none(r.letters().Import(t.Context(), got...))
	if !maps.Equal(got[0].Headers, headers) {
		t.Error("the caller's letter has changed")
	}
	if again := r.stored(id); !maps.Equal(again.Headers, stored.Headers) || again.Reason != stored.Reason {
		t.Fatalf("imported as %v", again.Headers)
	}
	r.must(os.Rename(file+"-away", file))
	r.none(r.letters().Replay(t.Context(), "", id))
	r.bodies(large)
}

func TestBuryEncodes(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true, Offload: 4096})
	bodies := [][]byte{order(3000), noise(5000, 1)}
	var letters []store.Record
	for i, b := range bodies {
		m := msg(b)
		m.ID = string(rune('a' + i))
		m.Headers = map[string]string{"a": "b"}
		letters = append(letters, store.Record{Message: m, EnqueuedAt: r.Now(), DeadAt: r.Now()})
	}
	own := msg([]byte("a"))
	own.ID, own.Headers = "own", map[string]string{codec.Header: "mine"}
	letters = append(letters, store.Record{Message: own, EnqueuedAt: r.Now(), DeadAt: r.Now()})
	refused, err := r.letters().Import(t.Context(), letters[:2]...)
	r.none(refused, err)
	r.wrap(codec.Config{})
	refused, err = r.letters().Import(t.Context(), letters[2])
	if r.must(err); len(refused) != 1 || !strings.Contains(refused["own"].Error(), codec.Header) {
		t.Fatalf("refused %v", refused)
	}
	for i, b := range bodies {
		id := string(rune('a' + i))
		if in := r.stored(id); len(in.Body) >= len(b) {
			t.Errorf("stored with %d bytes", len(in.Body))
		}
		if out := r.seen(id); !bytes.Equal(out.Body, b) || out.Headers["a"] != "b" {
			t.Errorf("shown with %d bytes and headers %v", len(out.Body), out.Headers)
		}
	}
}

func TestAmendEncodes(t *testing.T) {
	contents := map[string][]byte{"json": order(3000), "small": []byte("a"), "large": noise(5000, 1), "empty": {}}
	for from, before := range contents {
		for to, after := range contents {
			r := newRig(t, codec.Config{Compress: true, Offload: 4096})
			m := msg(before)
			m.Headers = map[string]string{"a": "1"}
			id := r.put(m, msg(before))[0]
			r.kill()
			for _, rec := range r.dead(store.DeadFilter{}) {
				r.none(r.letters().Edit(t.Context(), store.Edit{ID: rec.ID,
					Headers: map[string]string{"b": "2"}}))
				if now := r.seen(rec.ID); !bytes.Equal(now.Body, before) || now.Headers["b"] != "2" {
					t.Fatalf("%s: headers %v, %d bytes", from, now.Headers, len(now.Body))
				}
				r.none(r.letters().Edit(t.Context(), store.Edit{ID: rec.ID, Body: after},
					store.Edit{ID: rec.ID, Headers: map[string]string{"c": "3"}}))
				want := maps.Clone(rec.Headers)
				if want == nil {
					want = map[string]string{}
				}
				want["b"], want["c"] = "2", "3"
				if now := r.seen(rec.ID); !bytes.Equal(now.Body, after) || !maps.Equal(now.Headers, want) {
					t.Fatalf("from %s to %s: headers %v, %d bytes; want %v", from, to, now.Headers, len(now.Body), want)
				}
			}
			in := r.stored(id)
			_, encoded := in.Headers[codec.Header]
			if big := func(of string) bool { return of == "json" || of == "large" }; encoded != (big(from) || big(to)) {
				t.Fatalf("from %s to %s: encoded %t", from, to, encoded)
			}
			if to == "json" && len(in.Body) >= len(after) || to == "large" && len(in.Body) > 100 {
				t.Fatalf("from %s to %s: stored with %d bytes", from, to, len(in.Body))
			}
			for _, name := range []string{codec.Header, codec.SealedHeader} {
				refused, err := r.letters().Edit(t.Context(), store.Edit{ID: id,
					Headers: map[string]string{name: "mine"}})
				if r.must(err); len(refused) != 1 || !bytes.Equal(r.seen(id).Body, after) {
					t.Fatalf("to %s: a header of the codec's is refused with %v", to, refused)
				}
			}
		}
	}
}

// TestAmendWithinTheLimits: the header of the codec stays where headers are at the limit.
func TestAmendWithinTheLimits(t *testing.T) {
	for _, c := range []struct {
		body []byte
		room int
	}{{[]byte("a"), pawl.MaxHeaders}, {order(3000), pawl.MaxHeaders - 1}, {noise(5000, 1), pawl.MaxHeaders - 1}} {
		r := newRig(t, codec.Config{Compress: true, Offload: 4096})
		id := r.put(msg(c.body))[0]
		r.kill()
		headers := map[string]string{}
		for i := range c.room {
			headers[strings.Repeat("h", i+1)] = "v"
		}
		r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Headers: headers}))
		if now := r.seen(id); !bytes.Equal(now.Body, c.body) || !maps.Equal(now.Headers, headers) {
			t.Fatalf("%d headers, %d bytes", len(now.Headers), len(now.Body))
		}
		for _, a := range []store.Edit{
			{ID: id, Headers: map[string]string{"more": ""}},
			{ID: id, Headers: map[string]string{"more": ""}, Body: order(2000)},
		} {
			refused, err := r.letters().Edit(t.Context(), a)
			if r.must(err); len(refused) != 1 || !bytes.Equal(r.seen(id).Body, c.body) {
				t.Fatal("more headers than the limit are taken")
			}
		}
		headers["h"] = "w"
		r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Body: order(2000)}))
		r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Headers: map[string]string{"h": "w"}}))
		r.none(r.letters().Replay(t.Context(), "", id))
		if got := r.bodies(order(2000))[0].Headers; !maps.Equal(got, headers) {
			t.Fatalf("delivered with %d headers", len(got))
		}
	}
}

// TestAmendHeals: a new body makes a letter readable that was not.
func TestAmendHeals(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	ids := r.put(msg(noise(9000, 1)), msg(noise(9000, 2)))
	r.kill()
	for _, file := range r.files() {
		r.must(os.Remove(file))
	}
	r.none(r.letters().Edit(t.Context(), store.Edit{ID: ids[0], Headers: map[string]string{"a": "1"}}))
	if now := r.seen(ids[0]); now.Headers["a"] != "1" || now.Headers[codec.SealedHeader] == "" {
		t.Fatalf("headers %v", now.Headers)
	}
	refused, err := r.letters().Edit(t.Context(), store.Edit{ID: ids[1],
		Headers: map[string]string{codec.Header: "raw;len=0"}})
	if r.must(err); len(refused) != 1 {
		t.Fatal("the header that says how to read it is edited")
	}
	r.none(r.letters().Edit(t.Context(), store.Edit{ID: ids[0], Body: []byte("by hand")},
		store.Edit{ID: ids[1], Body: noise(9000, 3)}))
	if now := r.seen(ids[0]); string(now.Body) != "by hand" || len(now.Headers) != 1 {
		t.Fatalf("body %q, headers %v", now.Body, now.Headers)
	}
	r.none(r.letters().Replay(t.Context(), "", ids...))
	r.bodies([]byte("by hand"), noise(9000, 3))
}

// meddler edits a letter just before another edit.
type meddler struct {
	store.Store
	store.DeadLetters
	meddle func()
}

func (m *meddler) Unwrap() store.Store { return m.Store }

func (m *meddler) Edit(ctx context.Context, as ...store.Edit) (map[string]error, error) {
	if do := m.meddle; do != nil {
		m.meddle = nil
		do()
	}
	return m.DeadLetters.Edit(ctx, as...)
}

// TestAmendOfTwoProcesses: the header fits the body although another process has
// edited the letter since the second one looked.
func TestAmendOfTwoProcesses(t *testing.T) {
	for _, before := range [][]byte{[]byte("a"), order(3000)} {
		r := newRig(t, codec.Config{Compress: true})
		id := r.put(msg(before))[0]
		r.kill()
		other := r.letters()
		below, _ := store.As[store.DeadLetters](r.inner)
		m := &meddler{Store: r.inner, DeadLetters: below}
		m.meddle = func() { r.none(other.Edit(t.Context(), store.Edit{ID: id, Body: order(4000)})) }
		r.inner = m
		r.wrap(codec.Config{})
		r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Body: []byte("second")}))
		if now := r.seen(id); string(now.Body) != "second" || len(now.Headers) > 0 {
			t.Fatalf("body %.40q, headers %v", now.Body, now.Headers)
		}
	}
}

// noLookup is a store with dead letters only.
type noLookup struct {
	bare
	store.DeadLetters
}

func TestAmendWithoutLookup(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true})
	id := r.put(msg(order(4000)))[0]
	r.kill()
	below, _ := store.As[store.DeadLetters](r.inner)
	r.inner = &noLookup{bare{r.inner}, below}
	r.wrap(codec.Config{Compress: true})
	r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Headers: map[string]string{"a": "1"}}))
	_, err := r.letters().Edit(t.Context(), store.Edit{ID: id, Body: []byte("a")})
	wantCode(t, err, store.ErrUnsupported)
	r.none(r.letters().Replay(t.Context(), "", id))
	r.bodies(order(4000))
}
