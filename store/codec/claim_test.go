package codec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/storetest"
)

// damages say how to harm a blob, and what the reason of the death then has.
var damages = map[string]struct {
	harm   func(name string) error
	reason string
}{
	"missing": {os.Remove, "is missing"},
	"cut":     {func(n string) error { return os.Truncate(n, 100) }, "no longer has its 9000 bytes"},
	"longer":  {func(n string) error { return os.Truncate(n, 9001) }, "no longer has its 9000 bytes"},
	"altered": {func(n string) error { return os.WriteFile(n, noise(9000, 99), 0o600) }, "has changed"},
}

func TestDamagedBlobIsADeadLetter(t *testing.T) {
	for name, c := range damages {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, codec.Config{Offload: 1024})
			large := noise(9000, 1)
			id := r.put(msg(large))[0]
			whole, file := r.stored(id), r.file()
			r.put(msg([]byte("next")))
			r.must(c.harm(file))
			r.bodies([]byte("next"))
			p := r.reported(1)[0]
			if wantCode(t, p.Err, store.ErrCorrupt); p.ID != id || p.Action != "dead letter" {
				t.Fatalf("problem %+v", p)
			}
			in := r.stored(id)
			if in.State != store.IsDead || in.Kind != pawl.KindDecode || !strings.Contains(in.Reason, c.reason) ||
				!strings.Contains(in.Reason, file) ||
				in.Headers[codec.Header] != whole.Headers[codec.Header] || len(in.Body) != 0 ||
				in.History[0].Worker != "worker" {
				t.Fatalf("dead letter %+v", in)
			}
			_ = os.Remove(file)
			r.must(os.WriteFile(file, large, 0o600)) // from a backup
			r.none(r.letters().Replay(t.Context(), "", id))
			r.bodies(large)
		})
	}
}

// TestUnreadableBlobIsReleased: what may be better later kills nothing.
func TestUnreadableBlobIsReleased(t *testing.T) {
	for name, harm := range map[string]func(r *rig) (repair func() error){
		"folder not mounted": func(r *rig) func() error {
			r.must(os.Rename(r.blobs, r.blobs+"-away"))
			r.must(os.Mkdir(r.blobs, 0o700))
			return func() error {
				r.must(os.Remove(r.blobs))
				return os.Rename(r.blobs+"-away", r.blobs)
			}
		},
		"another folder": func(r *rig) func() error {
			r.must(os.Rename(r.blobs, r.blobs+"-away"))
			r.wrap(codec.Config{})
			return func() error {
				r.must(os.RemoveAll(r.blobs))
				return os.Rename(r.blobs+"-away", r.blobs)
			}
		},
		"error of the disk": func(r *rig) func() error { // reading a folder fails, too
			file := r.file()
			r.must(os.Rename(file, file+"-away"))
			r.must(os.Mkdir(file, 0o700))
			return func() error {
				r.must(os.Remove(file))
				return os.Rename(file+"-away", file)
			}
		},
		"no folder": func(r *rig) func() error {
			s, err := codec.New(r.inner, codec.Config{Report: func(p codec.Problem) {
				r.problems = append(r.problems, p)
			}})
			r.must(err)
			whole := r.Store
			r.Store = s
			return func() error { r.Store = whole; return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, codec.Config{Offload: 1024})
			large := noise(9000, 1)
			id := r.put(keyed("k", large))[0]
			r.put(keyed("k", []byte("behind")), msg([]byte("beside")))
			repair := harm(r)
			r.bodies([]byte("beside"))
			p := r.reported(1)[0]
			if wantCode(t, p.Err, store.ErrUnavailable); p.ID != id || p.Action != "released for 30s" {
				t.Fatalf("problem %+v", p)
			}
			if in := r.stored(id); in.State != store.Delayed || in.Attempts != 0 ||
				!strings.Contains(in.Reason, "released: codec: ") {
				t.Fatalf("it is %s after %d attempts: %s", in.State, in.Attempts, in.Reason)
			}
			r.bodies()
			r.reported(1) // not looked at again before its time
			r.must(repair())
			r.Advance(codec.DefaultAgain + time.Second)
			r.bodies(large, []byte("behind"))
		})
	}
}

// raw is a message that says of itself that it is encoded.
func raw(header string, body []byte) pawl.Message {
	m := msg(body)
	m.Headers = map[string]string{codec.Header: header}
	return m
}

func packZstd(b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(b, nil)
}

func TestUndecodableIsADeadLetter(t *testing.T) {
	hello := []byte("hello, hello, hello, hello")
	z := packZstd(hello)
	flipped := bytes.Clone(z)
	flipped[len(flipped)-1] ^= 1 // of the checksum
	sum := strings.Repeat("ab", 32)
	for i, m := range []pawl.Message{
		raw("", hello), raw("raw", hello), raw("raw;len=25", hello), raw("raw;len=-1", hello),
		raw("raw;len=26;new=1", hello), raw("brotli;len=26", hello),
		raw("zstd,zstd;len=26", z), raw("zstd,;len=26", z), raw("zstd;len=26", hello), raw("zstd;len=25", z),
		raw("zstd;len=27", z), raw("zstd;len=26", flipped),
		raw("zstd;len=26", append(bytes.Clone(z), 'x')), raw(fmt.Sprintf("raw;len=%d", pawl.MaxBody+1), hello),
		raw("raw;len=26;blob=md5:ab;size=1;dir=x", nil), raw("raw;len=26;blob=sha256:"+sum+";size=1", nil),
		raw("raw;len=26;blob=sha256:"+sum+";dir=x", nil),
		raw("raw;len=26;blob=sha256:"+sum+"ab;size=26;dir=x", nil),
		raw("raw;len=26;blob=sha256:"+sum+";size=26;dir=x", hello), raw("raw;len=99999999999999999999", hello),
	} {
		r := newRig(t, codec.Config{})
		id := r.putTo(r.inner, m)[0]
		r.bodies()
		in := r.stored(id)
		if in.State != store.IsDead || in.Kind != pawl.KindDecode || !bytes.Equal(in.Body, m.Body) ||
			in.Headers[codec.Header] != m.Headers[codec.Header] {
			t.Errorf("%d: %q is %s: %s", i, m.Headers[codec.Header], in.State, in.Reason)
		}
		r.reported(1)
	}
	r := newRig(t, codec.Config{})
	r.putTo(r.inner, raw("zstd;len=26", z), raw("raw;len=26", hello))
	r.bodies(hello, hello)
}

// TestBombs: what decoding allocates is bounded by what a message may have.
func TestBombs(t *testing.T) {
	bomb := packZstd(make([]byte, 512<<20))
	runtime.GC()
	for _, m := range []pawl.Message{
		raw("zstd;len=100", bomb), raw(fmt.Sprintf("zstd;len=%d", pawl.MaxBody), bomb),
		raw(fmt.Sprintf("zstd;len=%d", 512<<20), bomb),
	} {
		r := newRig(t, codec.Config{})
		id := r.putTo(r.inner, m)[0]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.bodies()
		runtime.ReadMemStats(&after)
		if in := r.stored(id); in.Kind != pawl.KindDecode {
			t.Errorf("%s is %s: %s", m.Headers[codec.Header], in.State, in.Reason)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 3*pawl.MaxBody {
			t.Errorf("%s: %d bytes were allocated", m.Headers[codec.Header], spent)
		}
	}
}

// TestPoisonWithinALane: what is before it is carried out before it dies, also
// where its death parks the lane; what is behind follows.
func TestPoisonWithinALane(t *testing.T) {
	for _, park := range []bool{false, true} {
		r := newRig(t, codec.Config{})
		topics, _ := store.As[store.Topics](r.Store)
		_, err := topics.Declare(t.Context(), store.Declaration{Name: topic, Park: &park})
		r.must(err)
		poison := raw("zstd;len=9", []byte("poison"))
		poison.Key = []byte("k")
		a, b := []byte("a"), []byte("b")
		ids := r.putTo(r.inner, keyed("k", a), keyed("k", b), poison, keyed("k", []byte("c")), keyed("l", []byte("d")))
		r.same(r.claimed(store.Want{Limit: 1, Run: 1}), a)
		r.Advance(30 * time.Second)
		r.bodies([]byte("d")) // the lane is leased
		r.Advance(time.Hour)  // and rescued
		r.bodies(a, b)
		if in := r.stored(ids[2]); in.State == store.IsDead {
			t.Fatal("it died before its turn")
		}
		if park {
			r.bodies()
		} else {
			r.bodies([]byte("c"))
		}
		if in := r.stored(ids[2]); in.Kind != pawl.KindDecode || in.Rescues != 0 {
			t.Fatalf("it is %s with %d rescues: %s", in.State, in.Rescues, in.Reason)
		}
		if n := len(r.dead(store.DeadFilter{})); park && n != 2 || !park && n != 1 {
			t.Fatalf("%d dead letters; parking is %t", n, park)
		}
	}
}

// TestPoisonDoesNotStall: a claim goes on behind what it refuses.
func TestPoisonDoesNotStall(t *testing.T) {
	r := newRig(t, codec.Config{})
	for range 50 {
		r.putTo(r.inner, raw("zstd;len=9", []byte("poison")))
	}
	poison := raw("zstd;len=9", []byte("poison"))
	poison.Key = []byte("k")
	r.putTo(r.inner, poison, poison, keyed("k", []byte("a")), msg([]byte("b")))
	r.same(r.claimed(store.Want{Limit: 10}), []byte("b"))
	r.same(r.claimed(store.Want{Limit: 10}), []byte("a"))
	if n := len(r.dead(store.DeadFilter{Kind: pawl.KindDecode, Brief: true})); n != 52 {
		t.Fatalf("%d dead letters", n)
	}
}

func TestBytesAreThoseDecoded(t *testing.T) {
	for _, c := range []codec.Config{{Compress: true}, {Offload: 1024}} {
		for _, key := range []string{"", "k"} {
			r := newRig(t, c)
			settled := 0
			r.inner = storetest.Faulty(r.inner, func(op string) storetest.Fault {
				if op == "settle" {
					settled++
				}
				return 0
			})
			r.wrap(c)
			var want [][]byte
			for i := range 20 {
				body := order(100_000)
				body[len(body)-3] = byte('0' + i%10)
				m := msg(body)
				if key != "" {
					m.Key = []byte(key)
				}
				want = append(want, body)
				r.put(m)
			}
			claims := 0
			for len(want) > 0 {
				ds := r.claimed(store.Want{Limit: 100, MaxBytes: 350_000})
				if claims++; len(ds) == 0 || len(ds) > 3 {
					t.Fatalf("%d deliveries of 100 kB; the bound is 350 kB", len(ds))
				}
				r.same(ds, want[:len(ds)]...)
				want = want[len(ds):]
				r.ack(ds...)
			}
			if claims > 14 {
				t.Errorf("%+v, key %q: it took %d claims", c, key, claims)
			}
			if released := settled - claims; released > 5 {
				t.Errorf("%+v, key %q: too much was claimed %d times", c, key, released)
			}
			r.reported(0)
		}
	}
}

// TestLargeOnesOneByOne: a message larger than the bound is given alone.
func TestLargeOnesOneByOne(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true})
	body := order(100_000)
	r.put(keyed("k", body), keyed("k", []byte("a")), keyed("k", body), msg(body))
	for _, want := range [][]byte{body, []byte("a"), body, body} {
		ds := r.claimed(store.Want{Limit: 100, MaxBytes: 1000})
		r.same(ds, want)
		r.ack(ds...)
	}
}

func TestAnswerOfTheSettleIsLost(t *testing.T) {
	r := newRig(t, codec.Config{})
	r.putTo(r.inner, raw("zstd;len=9", []byte("poison")), msg([]byte("a")))
	calls := 0
	r.inner = storetest.Faulty(r.inner, func(op string) storetest.Fault {
		if op == "settle" {
			calls++
		}
		if op == "settle" && calls == 1 {
			return storetest.FailAfter
		}
		return 0
	})
	r.wrap(codec.Config{})
	r.bodies([]byte("a"))
	if n := len(r.dead(store.DeadFilter{})); n != 1 || calls != 3 {
		t.Fatalf("%d dead letters after %d settlements", n, calls)
	}
	r.putTo(r.inner, raw("zstd;len=9", []byte("poison")), msg([]byte("b")))
	r.inner = storetest.Faulty(r.inner, func(op string) storetest.Fault {
		if op == "settle" {
			return storetest.FailBefore
		}
		return 0
	})
	r.wrap(codec.Config{})
	r.same(r.claimed(store.Want{Limit: 5}), []byte("b"))
	p := r.reported(3)
	wantCode(t, p[2].Err, store.ErrUnavailable)
}

func TestReaderSeesWhatIsSetAside(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	large := noise(9000, 1)
	r.put(msg(large))
	file := r.file()
	if s := sha256.Sum256(large); filepath.Base(file) != hex.EncodeToString(s[:]) {
		t.Fatalf("the file is %s", file)
	}
	r.must(os.Rename(file, file+".old"))
	r.bodies(large)
}
