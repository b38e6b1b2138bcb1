// Package kafka runs Confluent's Parallel Consumer, in a JVM.
package kafka

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/brokers"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/work"
)

// parallelSource is the arm in Java. The JVM compiles it when it starts.
//
//go:embed Parallel.java
var parallelSource []byte

// parallelReport is what the program in Java prints.
type parallelReport struct {
	Elapsed  time.Duration `json:"elapsed_ns"`
	CPU      time.Duration `json:"cpu_ns"`
	RSS      int64         `json:"rss_bytes"`
	Handled  int           `json:"handled"`
	Repeated int           `json:"repeated"` // or out of the order of their key
}

// ParallelJars returns the folder with the jars of Parallel Consumer, and its
// version. services is the path of dev/services, which fetches them with Maven.
func ParallelJars(ctx context.Context, services string) (jars, version string, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", "", errors.New("there is no java in PATH")
	}
	if services == "" {
		return "", "", errors.New("PAWL_TEST_SERVICES does not say where dev/services is")
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, services, "tool", "parallel-consumer")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("fetch its jars: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	jars = strings.TrimSpace(out.String())
	found, _ := filepath.Glob(filepath.Join(jars, "parallel-consumer-core-*.jar")) // the pattern is well formed
	if len(found) != 1 {
		return "", "", fmt.Errorf("find parallel-consumer-core in %s: %d files", jars, len(found))
	}
	version = strings.TrimPrefix(strings.TrimSuffix(filepath.Base(found[0]), ".jar"), "parallel-consumer-core-")
	return jars, version, nil
}

// JavaVersion is that of the java in PATH.
func JavaVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "java", "--version").Output()
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.ReplaceAll(first, " ", "-")
}

// Parallel is a round of Parallel Consumer, in a JVM.
type Parallel struct {
	Addresses, Jars string
	Work            plan.Work
}

// Settings says in one line what is set.
func (*Parallel) Settings() string {
	return fmt.Sprintf("order KEY, %d at once, max.poll.records %d, commit every %v, JVM with its defaults, warmed up with "+
		"%d records, fetches as the others", plan.KafkaAtOnce, plan.ParallelPoll, plan.CommitEvery, plan.WarmUpRead)
}

// Do reads the topic. CPU and memory are those of the JVM; the pass that warms it up does not count, its memory excepted.
func (p *Parallel) Do(ctx context.Context) (o work.Outcome, err error) {
	dir, err := os.MkdirTemp("", "pawlbench-")
	if err != nil {
		return o, fmt.Errorf("create a folder for the program: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source := filepath.Join(dir, "Parallel.java")
	if err := os.WriteFile(source, parallelSource, 0o600); err != nil {
		return o, fmt.Errorf("write the program: %w", err)
	}
	n, topic, group := p.Work.N, brokers.TopicOf(p.Work.N), brokers.Prefix+plan.ParallelConsumer+"-"+pawl.NewID()
	set := func(name string, v any) string { return fmt.Sprintf("-D%s=%v", name, v) }
	cmd := exec.CommandContext(ctx, "java", "-cp", filepath.Join(p.Jars, "*"),
		set("org.slf4j.simpleLogger.defaultLogLevel", "error"), set("brokers", p.Addresses), set("group", group),
		set("topic", topic), set("n", n), set("warm.topic", brokers.TopicOf(plan.WarmUpRead)), set("warm.n", plan.WarmUpRead),
		set("keys", plan.KafkaKeys), set("at.once", plan.KafkaAtOnce), set("takes.ms", p.Work.Takes.Milliseconds()),
		set("commit.ms", plan.CommitEvery.Milliseconds()),
		set("fetch.min.bytes", plan.FetchMinBytes), set("fetch.max.wait.ms", plan.FetchWait.Milliseconds()),
		set("fetch.max.bytes", plan.FetchBytes), set("max.partition.fetch.bytes", plan.FetchPartitionBytes),
		set("max.poll.records", plan.ParallelPoll), source)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := errs.Bytes()
		return o, fmt.Errorf("run Parallel Consumer: %w: %s", cmp.Or(context.Cause(ctx), err),
			said[max(0, len(said)-2000):])
	}
	var r parallelReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return o, fmt.Errorf("read what Parallel Consumer measured: %w", err)
	}
	if r.Handled-r.Repeated != n {
		return o, fmt.Errorf("%d records in the order of their key instead of %d", r.Handled-r.Repeated, n)
	}
	o = work.Outcome{N: n, PerSecond: float64(n) / r.Elapsed.Seconds(), Repeated: r.Repeated, RSS: r.RSS,
		Costs: meter.CPUCosts(r.CPU, n)}
	b, err := brokers.Dial(p.Addresses)
	if err != nil {
		return o, err
	}
	defer b.Close()
	committed, err := b.Committed(ctx, group, topic)
	if err == nil && committed != n {
		err = fmt.Errorf("%d of %d records are committed", committed, n)
	}
	return o, err
}
