package kafka

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRecordsOwnEveryByte: what records have is what they had, of whatever size, and in
// memory of their own; nothing stays nothing, and empty empty.
func TestRecordsOwnEveryByte(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 100, slabSize - 1, slabSize, slabSize + 1, 5, 0, 3 * slabSize, 1000}
	var records, want []*kgo.Record
	for i, n := range sizes {
		body := bytes.Repeat([]byte{byte('a' + i)}, n)
		records = append(records, &kgo.Record{Key: []byte{byte(i)}, Value: body},
			&kgo.Record{Key: []byte{}, Value: nil})
		want = append(want, &kgo.Record{Key: []byte{byte(i)}, Value: bytes.Clone(body)},
			&kgo.Record{Key: []byte{}, Value: nil})
	}
	callers := make([][]byte, len(records))
	for i, r := range records {
		callers[i] = r.Value
	}
	own(records)
	for _, b := range callers {
		clear(b)
	}
	for i, r := range records {
		w := want[i]
		if !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.Value, w.Value) || (r.Key == nil) != (w.Key == nil) ||
			(r.Value == nil) != (w.Value == nil) {
			t.Fatalf("record %d has %d and %d bytes: %.20q, %.20q; want %.20q, %.20q", i, len(r.Key), len(r.Value),
				r.Key, r.Value, w.Key, w.Value)
		}
	}
}
