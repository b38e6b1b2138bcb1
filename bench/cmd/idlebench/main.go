// Command idlebench measures what daemons cost that have nothing to do: how often they ask the store, what that is to its
// server, and their CPU time. It prints a table, a line for each store and number of processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/bench/internal/beside"
	"github.com/pawl-dev/pawl/bench/internal/command"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/store"
)

type settings struct {
	pawl            string
	settle, measure time.Duration
}

func main() { command.Main("idlebench", run) }

func run(ctx context.Context, args []string) error {
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

// idle measures n processes over a store, and prints a line.
func idle(ctx context.Context, s *settings, url string, n int) error {
	dir, err := os.MkdirTemp("", "idlebench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := map[string]string{"pawl.yaml": "auto_migrate: true\nlisten: 127.0.0.1:0\nstore: ${STORE}\n" +
		"topics: {idle: {handler: exec, command: cat}}\n"}
	var all []*beside.Daemon
	for range n {
		d, err := beside.Up(s.pawl, dir, config, "STORE="+url)
		if err != nil {
			return err
		}
		defer d.Stop()
		all = append(all, d)
	}
	if err := store.Sleep(ctx, s.settle); err != nil {
		return err
	}
	before, err := look(ctx, all, url)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := store.Sleep(ctx, s.measure); err != nil {
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

// figures are totals at a moment.
type figures struct {
	calls, server float64
	what          string // the server counts
	cpu           time.Duration
}

func look(ctx context.Context, all []*beside.Daemon, url string) (figures, error) {
	var f figures
	for _, d := range all {
		cpu, err := meter.CPU(d.Pid)
		if err != nil {
			return f, err
		}
		f.cpu += cpu
		text, err := scrape(ctx, d.Address)
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
