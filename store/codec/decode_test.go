package codec

import (
	"bytes"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestAnyMessage: what goes in comes out, whatever the codec is, and within the
// limits.
func TestAnyMessage(t *testing.T) {
	dir := t.TempDir() + "/blobs"
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Compress: rapid.Bool().Draw(t, "compress"), Min: rapid.IntRange(1, 100).Draw(t, "min"), Blobs: dir,
		}
		s, err := NewGreedy(memory.New(memory.Config{}), c, rapid.SampledFrom([]int{0, 1, 50}).Draw(t, "offload"))
		if err != nil {
			t.Fatal(err)
		}
		s.encode.greedy = rapid.Bool().Draw(t, "greedy")
		m := pawl.Message{
			Topic: "topic", Body: rapid.OneOf(rapid.SliceOf(rapid.Byte()),
				rapid.Map(rapid.SliceOf(rapid.IntRange(0, 9)), ints)).Draw(t, "body"),
			Headers: rapid.MapOf(rapid.StringN(1, 10, -1), rapid.String()).Draw(t, "headers"),
		}
		before := pawl.Message{Topic: m.Topic, Body: bytes.Clone(m.Body), Headers: maps.Clone(m.Headers)}
		d, err := s.encode.encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.keep(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		got := d.message
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := s.decode.decode(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m, before) || !bytes.Equal(got.Body, m.Body) || !maps.Equal(got.Headers, m.Headers) {
			t.Fatalf("%+v came out as %+v", before, got)
		}
	})
}

func ints(ns []int) []byte {
	b := []byte{'['}
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, byte('0'+n))
	}
	return append(b, ']')
}

func FuzzDecode(f *testing.F) {
	s, err := New(memory.New(memory.Config{}), Config{Blobs: f.TempDir() + "/blobs"})
	if err != nil {
		f.Fatal(err)
	}
	e := &encoder{compress: true, min: 1, shrink: newCompressor(), greedy: true}
	d, err := e.encode(pawl.Message{Topic: "t", Body: []byte(`[1,2,"three"]`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(d.message.Headers[Header], d.message.Body)
	f.Add("raw;len=5", []byte("hello"))
	f.Add(
		"zstd;len=5120;blob=sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08;size=1830;dir=x",
		[]byte{})
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		m := pawl.Message{Topic: "t", Body: body, Headers: map[string]string{Header: header, "a": "b"}}
		before := pawl.Message{Topic: "t", Body: bytes.Clone(body), Headers: maps.Clone(m.Headers)}
		if err := s.decode.decode(t.Context(), &m); err != nil {
			if !reflect.DeepEqual(m, before) {
				t.Fatalf("after %v it is %+v", err, m)
			}
			return
		}
		if len(m.Body) > pawl.MaxBody || !bytes.Equal(body, before.Body) {
			t.Fatalf("%d bytes came out of %q", len(m.Body), header)
		}
		r, err := parseRecipe(header)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseRecipe(r.String())
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%q is written as %q: %v", header, r.String(), err)
		}
	})
}
