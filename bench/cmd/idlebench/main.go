// Command idlebench measures what daemons cost that have nothing to do: how often they ask the store, what that is to its
// server, and their CPU time. It prints a table, a line for each store and number of processes.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

type settings struct {
	pawl            string
	settle, measure time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "idlebench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("idlebench", flag.ContinueOnError)
	flags.StringVar(&s.pawl, "pawl", "pawl", "the program")
	flags.DurationVar(&s.settle, "settle", 15*time.Second, "how long processes run before they are measured")
	flags.DurationVar(&s.measure, "measure", 20*time.Second, "how long they are measured")
	counts := flags.String("processes", "1,20", "numbers of processes")
	stores := flags.String("stores", "sqlite:idle.db", "URLs of stores, each empty and of its own, commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Println("| store | processes | store calls/s | server | CPU of a process |\n|---|---|---|---|---|")
	for url := range strings.SplitSeq(*stores, ",") {
		for text := range strings.SplitSeq(*counts, ",") {
			n, err := strconv.Atoi(text)
			if err == nil {
				err = idle(ctx, &s, url, n)
			}
			if err != nil {
				return fmt.Errorf("%s processes: %w", text, err)
			}
		}
	}
	return nil
}

// daemon is a process that waits for messages.
type daemon struct {
	cmd     *exec.Cmd
	address string
}

var listens = regexp.MustCompile(`message=started .*listen=(\S+)`)

// idle measures n processes over a store, and prints a line.
func idle(ctx context.Context, s *settings, url string, n int) error {
	dir, err := os.MkdirTemp("", "idlebench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := "auto_migrate: true\nlisten: 127.0.0.1:0\nstore: ${STORE}\ntopics: {idle: {handler: exec, command: cat}}\n"
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	var all []*daemon
	defer func() {
		for _, d := range all {
			_ = d.cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, d := range all {
			_ = d.cmd.Wait() // how it ends is not what is measured
		}
	}()
	for range n {
		d, err := start(s.pawl, dir, url)
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	if err := sleep(ctx, s.settle); err != nil {
		return err
	}
	before, err := look(ctx, all, url)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sleep(ctx, s.measure); err != nil {
		return err
	}
	after, err := look(ctx, all, url)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	server := "–"
	if after.what != "" {
		server = fmt.Sprintf("%.1f %s/s", (after.server-before.server)/took, after.what)
	}
	scheme, _, _ := strings.Cut(url, ":")
	fmt.Printf("| %s | %d | %.1f | %s | %.2f %% |\n", scheme, n, (after.calls-before.calls)/took, server,
		100*(after.cpu-before.cpu).Seconds()/took/float64(n))
	return nil
}

func start(pawl, dir, url string) (*daemon, error) {
	cmd := exec.Command(pawl, "up")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "STORE="+url)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &daemon{cmd, m[1]}, nil
		}
		fmt.Fprintln(&said, lines.Text())
	}
	return nil, errors.Join(fmt.Errorf("pawl up ended: %s", said.String()), cmd.Wait())
}

// figures are totals at a moment.
type figures struct {
	calls, server float64
	what          string // the server counts
	cpu           time.Duration
}

func look(ctx context.Context, all []*daemon, url string) (figures, error) {
	var f figures
	for _, d := range all {
		cpu, err := cpuOf(d.cmd.Process.Pid)
		if err != nil {
			return f, err
		}
		f.cpu += cpu
		text, err := scrape(ctx, d.address)
		if err != nil {
			return f, err
		}
		f.calls += sum(text, "pawl_store_calls_total")
	}
	if !strings.HasPrefix(url, "postgres") {
		return f, nil
	}
	f.what = "transactions"
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return f, err
	}
	err = conn.QueryRow(ctx, `SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database
		WHERE datname = current_database()`).Scan(&f.server)
	return f, errors.Join(err, conn.Close(ctx))
}

// cpuOf is user and system time of a process: fields 14 and 15 of its line, in hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}

func scrape(ctx context.Context, address string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(reply.Body)
	return string(b), errors.Join(err, reply.Body.Close())
}

// sum adds up the series of a metric.
func sum(text, name string) (total float64) {
	for line := range strings.Lines(text) {
		if at := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, name) && at > 0 {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			total += v
		}
	}
	return total
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
