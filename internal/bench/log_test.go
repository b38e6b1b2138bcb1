package bench_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/bench"
	"github.com/pawl-dev/pawl/observe/logs"
)

var (
	gap    = regexp.MustCompile(`(?m) dropped=(\d+) seq_from=\d+ seq_to=\d+$`)
	record = regexp.MustCompile(`(?m) n=\d+ .* seq=(\d+)$`)
)

// TestLogLoadIsAccountedFor: of the records of a load each is written or dropped, by the counts and by the file,
// whatever happens to the other sinks; and no call waits for one.
func TestLogLoadIsAccountedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := logs.OpenFile(logs.FileConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	const records = 20_000
	r := bench.Log(t.Context(), bench.LogConfig{Records: records, Producers: 4, PerSecond: 100_000, Sinks: []logs.Sink{
		{Name: "file", Buffer: 2000, Output: file},
		{Name: "hang", Buffer: 2000, Output: bench.NewHanging(time.Second)},
		{Name: "fail", Buffer: 2000, Output: bench.NewFailing()},
	}})
	if r.Offered != records || r.PerSecond <= 0 || len(r.Sinks) != 3 {
		t.Errorf("%+v", r)
	}
	for name, s := range r.Sinks {
		told := uint64(0)
		if name != "fail" { // whose failing is told to the others, in a record more
			told = s.Written + s.Dropped - records
		}
		if s.Written+s.Dropped < records || told > 2 || s.MaxLag > 2000 {
			t.Errorf("%s: %+v", name, s)
		}
		if s.P99BlockNS > int64(time.Second/2) {
			t.Errorf("callers waited: %v", time.Duration(s.P99BlockNS))
		}
	}
	if s := r.Sinks["hang"]; s.Dropped == 0 || s.Written == 0 {
		t.Errorf("a sink that hangs drops what its queue cannot hold, and writes the rest: %+v", s)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for _, m := range gap.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		dropped += n
	}
	seen := map[string]bool{}
	for _, m := range record.FindAllSubmatch(text, -1) {
		seen[string(m[1])] = true
	}
	written := len(seen)
	if written+dropped < records || written+dropped > records+2 ||
		bytes.Count(text, []byte("\n")) < written {
		t.Errorf("the file has %d records, and tells of %d that it has not; offered were %d", written, dropped, records)
	}
}
