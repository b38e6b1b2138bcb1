package codec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
)

const topic = "topic"

// rig is a codec over a memory store.
type rig struct {
	testing.TB
	*codec.Store
	*clock
	inner store.Store
	blobs string

	mu       sync.Mutex
	problems []codec.Problem
}

// newRig gives a codec with a folder of blobs; what c says of one is replaced.
func newRig(t testing.TB, c codec.Config) *rig {
	t.Helper()
	r := &rig{TB: t, clock: &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
		blobs: filepath.Join(t.TempDir(), "blobs")}
	r.inner = memory.New(memory.Config{Now: r.Now})
	r.wrap(c)
	return r
}

// wrap puts another codec over the same store.
func (r *rig) wrap(c codec.Config) {
	r.Helper()
	c.Blobs = r.blobs
	c.Report = func(p codec.Problem) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.problems = append(r.problems, p)
	}
	s, err := codec.New(r.inner, c)
	r.must(err)
	r.Store = s
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func msg(body []byte) pawl.Message { return pawl.Message{Topic: topic, Body: body} }

func keyed(key string, body []byte) pawl.Message {
	m := msg(body)
	m.Key = []byte(key)
	return m
}

// put appends messages that must be stored.
func (r *rig) put(msgs ...pawl.Message) (ids []string) {
	r.Helper()
	return r.putTo(r.Store, msgs...)
}

func (r *rig) putTo(s store.Store, msgs ...pawl.Message) (ids []string) {
	r.Helper()
	receipts, err := s.Append(r.Context(), store.NewBatch(msgs...))
	r.must(err)
	for i, rc := range receipts {
		if rc.Err != nil || rc.DuplicateOf != "" {
			r.Fatalf("message %d: %+v", i, rc)
		}
		ids = append(ids, rc.ID)
	}
	return ids
}

// claimed claims what is there.
func (r *rig) claimed(w store.Want) []pawl.Delivery {
	r.Helper()
	w.Topic = topic
	ds, err := r.Claim(r.Context(), []store.Want{w}, store.Lease{For: time.Minute, Owner: "worker"})
	r.must(err)
	return ds
}

// bodies claims everything, fails unless these bodies come, and acks them.
func (r *rig) bodies(want ...[]byte) []pawl.Delivery {
	r.Helper()
	ds := r.claimed(store.Want{Limit: 100})
	r.same(ds, want...)
	r.ack(ds...)
	return ds
}

func (r *rig) same(ds []pawl.Delivery, want ...[]byte) {
	r.Helper()
	if len(ds) != len(want) {
		r.Fatalf("%d deliveries %s; want %d", len(ds), short(ds), len(want))
	}
	for i, d := range ds {
		if string(d.Body) != string(want[i]) {
			r.Fatalf("delivery %d has %.60q; want %.60q", i, d.Body, want[i])
		}
		for k := range d.Headers {
			if strings.HasPrefix(k, codec.Header) {
				r.Fatalf("delivery %d has header %s", i, k)
			}
		}
	}
}

func short(ds []pawl.Delivery) (s []string) {
	for _, d := range ds {
		s = append(s, fmt.Sprintf("%.20q", d.Body))
	}
	return s
}

func (r *rig) ack(ds ...pawl.Delivery) {
	r.Helper()
	var items []store.Settlement
	for _, d := range ds {
		items = append(items, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
	}
	r.settle(items...)
}

func (r *rig) settle(items ...store.Settlement) {
	r.Helper()
	refused, err := r.Settle(r.Context(), store.NewBatch(items...))
	if r.must(err); len(refused) > 0 {
		r.Fatalf("refused %v", refused)
	}
}

// kill lets the messages that are there die.
func (r *rig) kill() {
	r.Helper()
	for _, d := range r.claimed(store.Want{Limit: 100}) {
		r.settle(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Dead,
			Failure: store.Failure{Kind: "Test", Error: "killed"}})
	}
}

// stored is the message as the store below has it.
func (r *rig) stored(id string) store.Record {
	r.Helper()
	return get(r, r.inner, id)
}

// seen is the message as the codec shows it.
func (r *rig) seen(id string) store.Record {
	r.Helper()
	return get(r, r.Store, id)
}

func get(r *rig, s store.Store, id string) store.Record {
	r.Helper()
	i, ok := store.As[store.Inspector](s, store.CanLookup)
	if !ok {
		r.Fatalf("%T has no Inspector", s)
	}
	rec, err := i.Get(r.Context(), id)
	r.must(err)
	return rec
}

func (r *rig) letters() store.DeadLetters {
	r.Helper()
	l, ok := store.As[store.DeadLetters](r.Store)
	if !ok {
		r.Fatal("no dead letters")
	}
	return l
}

// dead lists dead letters through the codec.
func (r *rig) dead(f store.DeadFilter) (all []store.Record) {
	r.Helper()
	for rec, err := range r.letters().Dead(r.Context(), f) {
		r.must(err)
		all = append(all, rec)
	}
	return all
}

func (r *rig) none(refused map[string]error, err error) {
	r.Helper()
	if r.must(err); len(refused) > 0 {
		r.Fatalf("refused %v", refused)
	}
}

// files are the blobs that are there, by their path.
func (r *rig) files() (names []string) {
	r.Helper()
	r.must(filepath.WalkDir(r.blobs, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && len(filepath.Base(name)) == 64 {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// file is the one blob that is there.
func (r *rig) file() string {
	r.Helper()
	names := r.files()
	if len(names) != 1 {
		r.Fatalf("%d blobs; want one", len(names))
	}
	return names[0]
}

// age makes files older by so much.
func (r *rig) age(by time.Duration, names ...string) {
	r.Helper()
	for _, name := range names {
		info, err := os.Stat(name)
		r.must(err)
		r.must(os.Chtimes(name, info.ModTime().Add(-by), info.ModTime().Add(-by)))
	}
}

func (r *rig) reported(n int) []codec.Problem {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.problems) != n {
		r.Fatalf("%d problems reported: %v; want %d", len(r.problems), r.problems, n)
	}
	return slices.Clone(r.problems)
}

func wantCode(t testing.TB, err, code error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("error %v; want %v", err, code)
	}
}

// noise is content that nothing makes shorter.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	c := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = c.Read(b)
	return b
}

// order is a JSON body of about n bytes, as programs send them.
func order(n int) []byte {
	b := []byte(`{"order":48113,"customer":{"id":"c-90172","name":"Ada Müller","vip":true},"note":null,"lines":[`)
	for i := 0; len(b) < n-80; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"sku":"A-%05d","quantity":%d,"price":%d.25,"weight":0.125,"stock":%t}`, i*7919%100000,
			i%9+1, i*37%900, i%3 == 0)
	}
	return append(b, `],"total":1290.75}`...)
}
