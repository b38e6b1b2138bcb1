//go:build unix

// Package e2e runs the built binary as its users do: testdata/script has what they
// type and what they see, and every example of the help is run.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// envPawl, in the environment, is the binary under test; else it is built.
const envPawl = "PAWL_E2E_PAWL"

func TestMain(m *testing.M) {
	if other := standIns[filepath.Base(os.Args[0])]; other != nil {
		os.Exit(other(os.Args[1:]))
	}
	// The tests that move traffic wait most of their time: others go on beside them.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	bin, err := os.MkdirTemp("", "pawl-e2e-bin-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(bin) }()
	pawl := filepath.Join(bin, "pawl")
	if given := os.Getenv(envPawl); given != "" {
		err = os.Symlink(given, pawl)
	} else if text, failed := exec.Command("go", "build", "-o", pawl, "../cmd/pawl").CombinedOutput(); failed != nil {
		err = fmt.Errorf("build: %w\n%s", failed, text)
	}
	for name, script := range map[string]string{"code": codeScript, "alive": aliveScript, "daemon": daemonScript} {
		if err == nil {
			err = os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755)
		}
	}
	if err == nil {
		err = standIn(bin)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_ = os.Unsetenv("PAWL_STORE")
	return m.Run()
}

// codeScript runs a command and holds it to an exit code: code 6 pawl …
const codeScript = `#!/bin/sh
want=$1
shift
"$@"
got=$?
[ "$got" = "$want" ] && exit 0
echo "exit code $got, want $want: $*" >&2
exit 1
`

// aliveScript reports whether a process runs; one that is dead and waits to be
// reaped does not: alive PID.
const aliveScript = `#!/bin/sh
case $(ps -o stat= -p "$1") in
"" | Z*) exit 1 ;;
esac
`

// TestScripts runs those that any store passes on SQLite, and those that are about
// files.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"any", "local"} {
		testscript.Run(t, testscript.Params{
			Dir: filepath.Join("testdata", "script", dir), Cmds: commands,
			Setup: func(e *testscript.Env) error {
				url := "sqlite:" + filepath.Join(e.WorkDir, "pawl.db")
				e.Setenv("PAWL_STORE", url)
				if dir == "any" { // commands that look need a store, as on a server
					if err := migrate(url, "up"); err != nil {
						return err
					}
				}
				return prepare(e)
			},
		})
	}
}

// TestScriptsPostgres runs those that any store passes on PostgreSQL, each in a
// schema of its own.
func TestScriptsPostgres(t *testing.T) {
	t.Parallel()
	server := os.Getenv("PAWL_TEST_POSTGRES")
	if server == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script", "any"), Cmds: commands,
		Setup: func(e *testscript.Env) error {
			joint := map[bool]string{true: "&", false: "?"}[strings.Contains(server, "?")]
			url := fmt.Sprintf("%s%spawl_schema=e2e_%08x", server, joint, rand.Uint32())
			e.Defer(func() {
				if err := migrate(url, "down", "--to", "0", "--yes"); err != nil {
					t.Error(err)
				}
			})
			e.Setenv("PAWL_STORE", url)
			if err := migrate(url, "up"); err != nil {
				return err
			}
			return prepare(e)
		},
	})
}

func migrate(url string, args ...string) error {
	cmd := exec.Command("pawl", append([]string{"migrate"}, args...)...)
	cmd.Env = append(os.Environ(), "PAWL_STORE="+url)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pawl migrate: %w: %s", err, text)
	}
	return nil
}

// prepare gives every script a temporary folder inside its own, and no colours.
func prepare(e *testscript.Env) error {
	e.Setenv("NO_COLOR", "1")
	e.Setenv("USER", "tester")
	e.Setenv("TZ", "UTC")
	e.Setenv("COLUMNS", "1000") // scripts look at cells, but for those that are about the width
	endDaemon(e)
	return nil
}

// commands are what scripts can do besides running programs.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"keep": keep, "await": await, "appears": appears, "serve": serve,
}

// keep sets a variable to what the last program printed: keep ID.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// script is a command that runs shell code. It is killed with all that it started when it takes too long: what hangs
// must fail, and show what it printed, where it would keep the whole run waiting.
func script(t *testing.T, code string) *exec.Cmd {
	t.Helper()
	limit := 5 * patience
	if os.Getenv("PAWL_SOAK") != "" {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit) // also for what cleans up
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", "-c", code)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// kafkaBroker is the address of the broker that dev/services started.
func kafkaBroker(t *testing.T) string {
	t.Helper()
	broker := os.Getenv("PAWL_TEST_KAFKA")
	if broker == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "kafka") {
			t.Fatal("PAWL_TEST_KAFKA is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_KAFKA is not set; dev/services run -- go test …")
	}
	return broker
}

// onLog are the scripts that a log passes, too. The others need what it lacks:
// priorities, delays, unique keys, or what other processes do at this moment.
var onLog = []string{"work_exec", "work_pipe", "work_policy", "up_look", "up_crash"}

// TestScriptsKafka runs those that a log passes on Kafka, and those that are about
// Kafka, each with topics of its own.
func TestScriptsKafka(t *testing.T) {
	t.Parallel()
	broker := kafkaBroker(t)
	files, err := filepath.Glob(filepath.Join("testdata", "script", "kafka", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range onLog {
		files = append(files, filepath.Join("testdata", "script", "any", name+".txtar"))
	}
	testscript.Run(t, testscript.Params{
		Files: files, Cmds: commands,
		Setup: func(e *testscript.Env) error {
			name := fmt.Sprintf("e2e-%08x", rand.Uint32())
			e.Setenv("PAWL_STORE",
				fmt.Sprintf("kafka://%s?prefix=%s.&group=%s&partitions=1&fetch_wait=50ms&session=6s&heartbeat=1s",
					broker, name, name))
			return prepare(e)
		},
	})
}
