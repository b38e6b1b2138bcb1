package sqlstore

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func FuzzIDSurvivesItsEncoding(f *testing.F) {
	f.Add(pawl.NewID())
	f.Add(strings.ToUpper(pawl.NewID()))
	f.Add("00345678-0000-7000-8000-000000000000")
	f.Add("sixteen bytes ok")
	f.Fuzz(func(t *testing.T, id string) {
		if got := DecodeID(EncodeID(id)); got != id {
			t.Fatalf("%q came back as %q", id, got)
		}
	})
}

func TestUUIDTakesSixteenBytes(t *testing.T) {
	if n := len(EncodeID(pawl.NewID())); n != 16 {
		t.Fatalf("%d bytes", n)
	}
}

func TestKeyLaneIsNegativeAndPerTopic(t *testing.T) {
	a, b := KeyLane(1, []byte("k")), KeyLane(2, []byte("k"))
	if a >= 0 || b >= 0 || a == b {
		t.Fatal(a, b)
	}
}

func TestHeadersSurvive(t *testing.T) {
	in := map[string]string{"a": "1", "nul\x00": "\u2028"}
	out, err := DecodeHeaders(EncodeHeaders(in))
	if err != nil || len(out) != 2 || out["nul\x00"] != "\u2028" {
		t.Fatal(out, err)
	}
}
