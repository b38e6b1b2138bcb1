package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/report"
)

// The harness starts this program again for every arm.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if err := Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestArmsTakeTurns(t *testing.T) {
	var c Config
	var got []string
	for round := range 4 {
		got = append(got, strings.Join(c.turn([]string{"a", "b", "c"}, round), ""))
	}
	if want := []string{"abc", "bca", "cab", "abc"}; !slices.Equal(got, want) {
		t.Errorf("turns are %v, want %v", got, want)
	}
}

func TestRunOfASQLiteArm(t *testing.T) {
	lines := measure(t, Config{Suite: plan.SQLite, Work: "burn", Arm: plan.Backlite})
	if lines[0].WAL != nil {
		t.Errorf("an embedded store has no server's WAL: %+v", lines[0])
	}
}

func TestRunOfAPostgresArm(t *testing.T) {
	dsn := os.Getenv("PAWL_TEST_POSTGRES")
	if dsn == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("PAWL_TEST_POSTGRES is not set")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set")
	}
	l := measure(t, Config{Suite: plan.Postgres, Work: "append", Arm: plan.River, Postgres: dsn,
		PostgresAdmin: os.Getenv("PAWL_TEST_POSTGRES_ADMIN")})[0]
	if l.WAL == nil || *l.WAL < plan.PayloadBytes || *l.WAL > 10_000 {
		t.Errorf("WAL of an inserted job: %v", l.WAL)
	}
	if l.Commits == nil || *l.Commits < 1.0/plan.AppendBatch || *l.Commits > 2.0/plan.AppendBatch {
		t.Errorf("commits of an inserted job: %v", l.Commits)
	}
}

func TestRunOfAKafkaArm(t *testing.T) {
	brokers := os.Getenv("PAWL_TEST_KAFKA")
	if brokers == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("PAWL_TEST_KAFKA is not set")
		}
		t.Skip("PAWL_TEST_KAFKA is not set")
	}
	l := measure(t, Config{Suite: plan.Kafka, Work: "10ms", Arm: plan.PawlDispatch, Kafka: brokers})[0]
	if limit := plan.KafkaAtOnce / 0.01; l.PerSecond > limit {
		t.Errorf("%.0f records a second of 10 ms, %d at once: more than %.0f", l.PerSecond, plan.KafkaAtOnce, limit)
	}
}

// An arm that this machine cannot run is left out, and the run says so.
func TestRunWithoutJavaLeavesParallelConsumerOut(t *testing.T) {
	var out, errs bytes.Buffer
	c := Config{Stdout: &out, Stderr: &errs, suiteWorks: plan.Works(plan.Quick)}
	t.Setenv("PATH", t.TempDir())
	c.prepareJava(t.Context())
	for _, w := range c.suiteWorks {
		if slices.Contains(w.Arms, plan.ParallelConsumer) {
			t.Errorf("%s/%s still has it", w.Suite, w.Name)
		}
	}
	if !strings.Contains(errs.String(), "LEFT OUT: the arm parallel-consumer: there is no java") || len(c.left) != 1 {
		t.Errorf("it said %q, and keeps %q", &errs, c.left)
	}
}

// quick without a suite stays under five minutes.
func TestQuickLeavesKafkaToThoseWhoNameIt(t *testing.T) {
	for _, c := range []struct {
		scale plan.Scale
		suite string
		want  bool
	}{{plan.Quick, "", false}, {plan.Full, "", true}, {plan.Quick, plan.Kafka, true}} {
		r := Config{Scale: c.scale, Suite: c.suite, Out: t.TempDir(), Stdout: io.Discard, Stderr: io.Discard}
		_ = r.prepare(t.Context()) // there are no servers
		if got := slices.ContainsFunc(r.suiteWorks,
			func(w plan.Work) bool { return plan.OnKafka(w.Suite) }); got != c.want {
			t.Errorf("scale %s, suite %q: Kafka is in it: %v", c.scale, c.suite, got)
		}
	}
}

func TestServerlessRunSaysWhatIsMissing(t *testing.T) {
	c := Config{Scale: plan.Quick, Suite: plan.Postgres, Out: t.TempDir()}
	if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "PAWL_TEST_POSTGRES") {
		t.Errorf("Run without a server: %v", err)
	}
	c = Config{Scale: plan.Quick, Suite: plan.KafkaProduce, Out: t.TempDir()}
	if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "PAWL_TEST_KAFKA") {
		t.Errorf("Run without a broker: %v", err)
	}
}

// measure runs one round of what c selects and returns the lines it wrote.
func measure(t *testing.T, c Config) (lines []report.Line) {
	var out, errs bytes.Buffer
	c.Scale, c.Rounds, c.Out, c.Timeout, c.Stdout, c.Stderr = plan.Quick, 1, t.TempDir(), time.Minute, &out, &errs
	if err := Run(t.Context(), c); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	if !strings.Contains(out.String(), c.Arm+": ") {
		t.Errorf("the table does not name the arm's settings:\n%s", &out)
	}
	b, err := os.ReadFile(filepath.Join(c.Out, c.Suite+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for row := range bytes.Lines(b) {
		var l report.Line
		if err := json.Unmarshal(row, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 1 || lines[0].PerSecond <= 0 || lines[0].RSS == 0 || lines[0].CPU == nil {
		t.Fatalf("lines are %+v", lines)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Out, "scratch-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	return lines
}
