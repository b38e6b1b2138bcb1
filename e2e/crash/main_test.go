//go:build linux

package crash

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The environment of this test binary, and of what it starts.
const (
	envPawl   = "PAWL_E2E_PAWL"   // the binary under test
	envWorker = "PAWL_E2E_WORKER" // built from e2e/worker
	envSeed   = "PAWL_E2E_SEED"
	envRun    = "PAWL_E2E_RUN"  // set in everything that this run starts
	envMark   = "PAWL_E2E_MARK" // set in one family of processes
	envBars   = "PAWL_BARS"
	envSoak   = "PAWL_SOAK"
)

// TestMain builds the programs, or becomes one.
func TestMain(m *testing.M) {
	if producer := os.Getenv(envProducer); producer != "" {
		os.Exit(produce(producer))
	}
	os.Exit(prepareAndRun(m))
}

func prepareAndRun(m *testing.M) int {
	bin, err := os.MkdirTemp("", "pawl-crash-bin-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(bin) }()
	for env, pkg := range map[string]string{envPawl: "../../cmd/pawl", envWorker: "../worker"} {
		if os.Getenv(env) != "" {
			continue
		}
		out := filepath.Join(bin, filepath.Base(pkg))
		if text, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			fmt.Printf("build %s: %v\n%s", pkg, err, text)
			return 1
		}
		_ = os.Setenv(env, out)
	}
	run := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	_ = os.Setenv(envRun, run)
	code := m.Run()
	if left := members(envRun, run); len(left) > 0 {
		fmt.Printf("processes outlived the tests: %s\n", describe(left))
		killAll(left)
		code = max(code, 1)
	}
	return code
}

// seed returns this run's seed and prints it.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	text := cmp.Or(os.Getenv(envSeed), strconv.FormatUint(rand.Uint64(), 10))
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", envSeed, err)
	}
	t.Logf("seed: %s=%d", envSeed, n)
	return rand.New(rand.NewPCG(n, 0))
}

// strict reports whether figures of speed are held to their bars. Beside other tests
// on a small machine they are held to something wider, see [bound].
func strict() bool { return os.Getenv(envBars) != "" }

// bound is the bar, or a multiple that shows only what is broken where other tests run beside.
func bound[T float64 | time.Duration](bar T) T {
	if strict() {
		return bar
	}
	return 25 * bar
}

// patience is how long to wait for what takes no longer than limit on a quiet machine: where other tests run beside, on
// cores that may be slow, only what hangs is to fail.
func patience(limit time.Duration) time.Duration {
	if strict() {
		return limit
	}
	return 5 * limit
}

// eventually polls until ok holds, and fails the test when its patience is over.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if !within(limit, ok) {
		t.Fatalf("not within %v: %s", patience(limit), what)
	}
}

// within polls until ok holds, for as long as patience allows.
func within(limit time.Duration, ok func() bool) bool {
	for began := time.Now(); ; time.Sleep(25 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Since(began) > patience(limit) {
			return false
		}
	}
}
