package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/meter"
)

// versions names what is compared.
func versions() map[string]string {
	v := map[string]string{
		"go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH, "cpus": fmt.Sprint(runtime.NumCPU()),
		"pawl": revision(),
	}
	wanted := map[string]string{
		"github.com/riverqueue/river": "river", "maragu.dev/goqite": "goqite",
		"github.com/mikestefanello/backlite": "backlite", "github.com/mattn/go-sqlite3": "go-sqlite3",
		"modernc.org/sqlite": "modernc-sqlite", "github.com/jackc/pgx/v5": "pgx",
		"github.com/twmb/franz-go": "franz-go",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if name, ok := wanted[d.Path]; ok {
				v[name] = d.Version
			}
		}
	}
	return v
}

// revision is the commit of the working folder; Pawl is built from it.
func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// busy is the load average of the last minute, which says whether others use
// the machine: then rates mean little, and CPU, WAL and tuples a job still do.
func busy() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(b), " ")
	return load
}

// probe times 200 small writes with a sync each, so that figures from an
// unusually fast or slow disk can be told apart.
func probe(dir string) string {
	const writes = 200
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // it is removed with its folder
	var took []time.Duration
	for range writes {
		began := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return err.Error()
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return err.Error()
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return fmt.Sprintf("fdatasync of 512 B beside the results: p50 %v, p99 %v",
		meter.Percentile(took, 0.5).Round(time.Microsecond), meter.Percentile(took, 0.99).Round(time.Microsecond))
}
