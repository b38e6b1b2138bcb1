package codec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
)

func TestEncodingIsInTheHeader(t *testing.T) {
	for _, c := range []struct {
		config codec.Config
		body   []byte
		begins string // of the header; "" for none
	}{
		{codec.Config{}, order(4 << 10), ""},
		{codec.Config{Compress: true}, order(4 << 10), "zstd;len="},
		{codec.Config{Compress: true}, order(900), ""}, // below Min
		{codec.Config{Compress: true, Min: 800}, order(900), "zstd;len="},
		// saves nothing
		{codec.Config{Compress: true}, noise(4<<10, 1), ""},
		// nor here
		{codec.Config{Compress: true}, []byte{}, ""},
		// less than the header costs
		{codec.Config{Compress: true}, append(noise(1100, 1), bytes.Repeat([]byte("a"), 55)...), ""},
		{codec.Config{Offload: 2048}, noise(2048, 1), ""},
		{codec.Config{Offload: 2048}, noise(2049, 1), "raw;len=2049;blob=sha256:"},
		{codec.Config{Offload: 2048, Compress: true}, order(4 << 10), "zstd;len="}, // small enough now
		{codec.Config{Offload: 2048, Compress: true}, noise(1<<20, 1), "raw;len=1048576;blob=sha256:"},
	} {
		r := newRig(t, c.config)
		m := msg(c.body)
		m.Headers = map[string]string{"trace": "1"}
		before := pawl.Message{Topic: topic, Body: bytes.Clone(c.body), Headers: maps.Clone(m.Headers)}
		id := r.put(m)[0]
		if !reflect.DeepEqual(m, before) {
			t.Fatal("the caller's message has changed")
		}
		in := r.stored(id)
		value, encoded := in.Headers[codec.Header]
		if encoded != (c.begins != "") || !strings.HasPrefix(value, c.begins) {
			t.Errorf("%+v: %d bytes have the header %q; want %q", c.config, len(c.body), value, c.begins)
		}
		if encoded && (in.Message.Size() >= m.Size()) {
			t.Errorf("%+v: %d bytes became %d", c.config, m.Size(), in.Message.Size())
		}
		if len(in.Headers) > 2 || in.Headers["trace"] != "1" {
			t.Errorf("headers %v", in.Headers)
		}
		out := r.seen(id)
		if !bytes.Equal(out.Body, c.body) || len(out.Headers) != 1 {
			t.Errorf("%+v: shown with body %.20q and headers %v", c.config, out.Body, out.Headers)
		}
		r.bodies(c.body)
		r.reported(0)
	}
}

// TestOthersCanRead undoes what the header says with nothing but public tools.
func TestOthersCanRead(t *testing.T) {
	body := order(8 << 10)
	r := newRig(t, codec.Config{Compress: true})
	in := r.stored(r.put(msg(body))[0])
	d, err := zstd.NewReader(bytes.NewReader(in.Body))
	r.must(err)
	got, err := io.ReadAll(d)
	r.must(err)
	if want := fmt.Sprintf("zstd;len=%d", len(body)); !bytes.Equal(got, body) || in.Headers[codec.Header] != want {
		t.Fatalf("header %q, %d bytes; want %q", in.Headers[codec.Header], len(got), want)
	}
}

// TestOnAndOff: what any codec wrote is read by any other, and what none wrote.
func TestOnAndOff(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true})
	a, b, c, d := order(2<<10), order(3<<10), order(4<<10), noise(5000, 1)
	r.put(msg(a))
	r.wrap(codec.Config{Compress: true, Offload: 4096})
	r.put(msg(b), msg(d))
	r.putTo(r.inner, msg(c))
	r.wrap(codec.Config{})
	r.bodies(a, b, d, c)
}

// TestNoRoomForTheHeader: headers at the limits of a message leave its body as it is.
func TestNoRoomForTheHeader(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true, Offload: 4096})
	headers := map[string]string{}
	for i := range pawl.MaxHeaders {
		headers[fmt.Sprint("h", i)] = ""
	}
	for _, body := range [][]byte{order(4000), noise(9000, 1)} {
		m := msg(body)
		m.Headers = maps.Clone(headers)
		id := r.put(m)[0]
		if in := r.stored(id); !bytes.Equal(in.Body, body) || in.Headers[codec.Header] != "" {
			t.Fatalf("%d bytes are stored with header %q", len(in.Body), in.Headers[codec.Header])
		}
		if d := r.bodies(body)[0]; !maps.Equal(d.Headers, headers) {
			t.Fatalf("delivered with headers %.40v", d.Headers)
		}
	}
}

// TestReservedHeadersAreRefused: a message with a header of the codec's own names is
// refused by itself, and says why, also when the batch is repeated.
func TestReservedHeadersAreRefused(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true})
	own := msg([]byte("own"))
	own.Headers = map[string]string{codec.SealedHeader: "mine"}
	batch := store.NewBatch(msg([]byte("a")), own, pawl.Message{Topic: "no topic"}, msg([]byte("b")))
	for range 2 {
		receipts, err := r.Append(t.Context(), batch)
		r.must(err)
		if receipts[0].Err != nil || receipts[3].Err != nil || receipts[0].DuplicateOf != "" || receipts[2].Err == nil {
			t.Fatalf("receipts %+v", receipts)
		}
		invalid, ok := errors.AsType[*pawl.InvalidError](receipts[1].Err)
		if !ok || !strings.Contains(invalid.Error(), codec.Header) {
			t.Fatalf("the message is refused with %v", receipts[1].Err)
		}
	}
	ds := r.claimed(store.Want{Limit: 5, Run: 1})
	r.same(ds, []byte("a"), []byte("b"))
	st := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack,
		Emit: []pawl.Message{msg([]byte("c")), own}}
	refused, err := r.Settle(t.Context(), store.NewBatch(st))
	r.must(err)
	if len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "emit [1]: headers named "+codec.Header) {
		t.Fatalf("refused %v", refused)
	}
	own.Headers = map[string]string{"pawl-codecs": "another"}
	r.put(own)
}

func TestBodyIsBoundedBeforeEncoding(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true})
	receipts, err := r.Append(t.Context(), store.NewBatch(msg(make([]byte, pawl.MaxBody+1)),
		msg(make([]byte, pawl.MaxBody))))
	r.must(err)
	if _, ok := errors.AsType[*pawl.InvalidError](receipts[0].Err); !ok || receipts[1].Err != nil {
		t.Fatalf("receipts %+v", receipts)
	}
	five := make([]pawl.Message, store.MaxBatchBytes/pawl.MaxBody+1)
	for i := range five {
		five[i] = msg(make([]byte, pawl.MaxBody))
	}
	_, err = r.Append(t.Context(), store.NewBatch(five...))
	wantCode(t, err, store.ErrTooLarge)
}

func TestEmitsAreEncoded(t *testing.T) {
	r := newRig(t, codec.Config{Compress: true, Offload: 4096})
	small, large := order(3000), noise(9000, 3)
	r.put(msg([]byte("parent")))
	d := r.claimed(store.Want{Limit: 1})[0]
	emits := []pawl.Message{msg(small), msg(large)}
	items := []store.Settlement{{Token: d.Token, ID: d.ID, Verdict: store.Ack, Emit: emits}}
	r.settle(items...)
	if emits[0].Headers != nil || emits[1].Body == nil || items[0].Emit[0].Headers != nil {
		t.Fatal("the caller's messages have changed")
	}
	for i := range emits {
		if in := r.stored(pawl.EmitID(d.ID, i)); in.Headers[codec.Header] == "" {
			t.Errorf("emit %d is stored as it is", i)
		}
	}
	r.bodies(small, large)
}

// TestFolderIsGone: no append without its blob; a settlement goes on.
func TestFolderIsGone(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	large := noise(9000, 3)
	r.put(msg([]byte("parent")))
	r.must(os.Rename(r.blobs, r.blobs+"-away"))
	batch := store.NewBatch(msg([]byte("beside")), msg(large))
	_, err := r.Append(t.Context(), batch)
	wantCode(t, err, store.ErrUnavailable)
	r.must(os.Mkdir(r.blobs, 0o700)) // where it was mounted
	_, err = r.Append(t.Context(), batch)
	wantCode(t, err, store.ErrUnavailable)
	r.must(os.WriteFile(r.blobs+"/pawl-blobs", []byte("another\n"), 0o600))
	_, err = r.Append(t.Context(), batch)
	wantCode(t, err, store.ErrUnavailable)
	if files := r.files(); len(files) > 0 {
		t.Fatalf("written to another folder: %q", files)
	}
	d := r.claimed(store.Want{Limit: 9})
	r.same(d, []byte("parent"))
	r.settle(store.Settlement{Token: d[0].Token, ID: d[0].ID, Verdict: store.Ack, Emit: []pawl.Message{msg(large)}})
	p := r.reported(1)[0]
	if wantCode(t, p.Err, store.ErrUnavailable); p.ID != pawl.EmitID(d[0].ID, 0) || p.Topic != topic {
		t.Fatalf("problem %+v", p)
	}
	r.bodies(large)
	r.must(os.RemoveAll(r.blobs))
	r.must(os.Rename(r.blobs+"-away", r.blobs))
	receipts, err := r.Append(t.Context(), batch)
	if r.must(err); receipts[1].Err != nil {
		t.Fatal(receipts)
	}
	r.bodies([]byte("beside"), large)
}

func TestBodiesShareAFile(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	large := noise(9000, 3)
	r.put(msg(large), msg(large))
	name := r.file()
	r.must(os.WriteFile(name, large[:100], 0o600)) // as if the disk had lost it
	r.put(msg(large))
	r.bodies(large, large, large)
	info, err := os.Stat(name)
	if r.must(err); info.Size() != 9000 {
		t.Fatalf("the file has %d bytes", info.Size())
	}
}

// bare is a store with nothing optional.
type bare struct{ store.Store }

func (bare) Describe() store.Description { return store.Description{Name: "bare"} }

type driverTx struct{ appended []pawl.Message }

// withTx is a store whose driver has transactions of its own type.
type withTx struct{ bare }

func (withTx) AppendTx(_ context.Context, tx *driverTx, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	tx.appended = append(tx.appended, b.Items...)
	return make([]store.Receipt, len(b.Items)), nil
}

func (withTx) AckTx(context.Context, *driverTx, pawl.Token) error { return store.ErrUnsupported }

func TestInterfacesAreThoseBelow(t *testing.T) {
	plain, err := codec.New(bare{memory.New(memory.Config{})}, codec.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, inspector := store.As[store.Inspector](plain, store.CanLookup)
	_, letters := store.As[store.DeadLetters](plain)
	_, topics := store.As[store.Topics](plain)
	_, tx := store.As[store.TxStore[*driverTx]](plain)
	if inspector || letters || topics || tx {
		t.Errorf("it has what the store below has not: %t %t %t %t", inspector, letters, topics, tx)
	}
	_, err = plain.Collect(t.Context(), 0)
	wantCode(t, err, store.ErrUnsupported)
	d, ok := store.As[store.Describer](plain)
	if !ok || d.Describe().Name != "bare" {
		t.Error("it does not describe the store below")
	}
	s, err := codec.New(withTx{bare{memory.New(memory.Config{})}},
		codec.Config{Compress: true, Tx: []codec.Tx{codec.TxOf[*driverTx]()}})
	if err != nil {
		t.Fatal(err)
	}
	appender, ok := store.As[store.TxStore[*driverTx]](s)
	if !ok {
		t.Fatal("it has no AppendTx")
	}
	var mine driverTx
	if _, err := appender.AppendTx(t.Context(), &mine, store.NewBatch(msg(order(5000)))); err != nil {
		t.Fatal(err)
	}
	if h := mine.appended[0].Headers[codec.Header]; !strings.HasPrefix(h, "zstd;") {
		t.Errorf("appended with header %q", h)
	}
}

func TestConfigIsChecked(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(full+"/mine", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config codec.Config
		code   error
	}{
		{codec.Config{Min: -1}, store.ErrInvalid},
		{codec.Config{Offload: 5000}, store.ErrInvalid},
		{codec.Config{Offload: 5, Blobs: t.TempDir()}, store.ErrInvalid},
		{codec.Config{Again: -1}, store.ErrInvalid},
		{codec.Config{Blobs: t.TempDir() + "/not/there"}, store.ErrUnavailable},
		{codec.Config{Blobs: file}, store.ErrUnavailable},
		{codec.Config{Blobs: full}, store.ErrConflict},
	} {
		_, err := codec.New(memory.New(memory.Config{}), c.config)
		wantCode(t, err, c.code)
	}
}
