package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) up() *cobra.Command {
	listen, door := "", ""
	c := &cobra.Command{
		Use: "up", Short: "Run the daemon: process the topics of a configuration file",
		Args: count(0, 0, "flags only"),
		Long: `Processes the topics of the configuration file, pawl.yaml in this folder or the one
that --config names: each with a program for every delivery (handler: exec), with
programs that keep running (pipe) or with a web service (http).

A delivery is posted to a web service with its body; the rest is in headers: Pawl-Id
Pawl-Topic Pawl-Key Pawl-Attempt Pawl-Last-Attempt Pawl-Deadline Pawl-Token Traceparent,
and Pawl-Headers as JSON. The status is the verdict: 2xx ack; 429 and 503 with
Retry-After release for that long; other 5xx retry; 4xx dead. The policy decides about
everything except ack and release.

The first SIGTERM or Ctrl-C drains, the second one ends at once. SIGHUP, and any
change of the file, reloads it: overrides of the policy, limits, concurrency and the
level of logs at once; the log names what needs a restart. A file with an error
changes nothing.

With api: in the file, or --api, it also serves the HTTP API for programs in any
language; with nothing else to do it serves that alone.

On a loopback port: /livez (the process runs), /readyz (it does its work; 503 and
why, while it drains or fails), /healthz (for people), /metrics.`,
		Example: `  pawl up                            # runs until it is stopped
  pawl up --listen 127.0.0.1:0       # runs until it is stopped
  pawl up --config pawl.yaml --dry-run`,
		RunE: func(c *cobra.Command, _ []string) error { return s.runUp(c.Context(), listen, door) },
	}
	c.Flags().StringVar(&door, "api", "", "`ADDRESS` of the HTTP API: host:port, or off")
	c.Flags().StringVar(&listen, "listen", "", "`ADDRESS` of health and metrics: host:port, or off")
	return c
}

// runUp runs the daemon.
func (s *session) runUp(ctx context.Context, listen, door string) error {
	path := s.configPath
	read := func() (config.Source, error) {
		src, err := s.source(path)
		if err == nil && listen != "" {
			src.Flags["listen"] = listen
		}
		if err == nil && door != "" {
			src.Flags["api"] = door
		}
		return src, err
	}
	src, err := read()
	if err != nil {
		return err
	}
	c, err := s.load(src)
	if err != nil {
		return err
	}
	if c.API.Serves() && len(c.Topics)+len(c.Pipelines) == 0 {
		return s.runAPI(ctx, c, read, true, nil)
	}
	if err := checkUp(src, c); err != nil {
		return err
	}
	path = src.Path // from now on a file that is not there is one that is missing
	if s.dryRun {
		for i := range c.Warnings {
			s.note("%s", c.Warnings[i].String())
		}
		s.note("would carry out %s on %s", strings.Join(topicNames(c), ", "), redact.URL(c.Store))
		return nil
	}
	began, level := time.Now(), &slog.LevelVar{}
	logger, err := s.daemonLogger(c, level, began)
	if err != nil {
		return err
	}
	s.fromFile, s.mirrorFile = c.Store, c.Mirror
	if err := s.trace(ctx, c, logger); err != nil {
		return err
	}
	front, err := serve.NewFront(c.Listen, logger)
	if err != nil {
		return cannotListen(err)
	}
	defer front.Close()
	daemon := serve.DaemonConfig{
		Config: c, Text: src.Text, Read: read, Load: s.reload,
		Logger: logger, Level: level, Stdout: s.Out, Stderr: s.Err, Getenv: s.Getenv, Version: s.version,
		Redact: s.redactor.Redact, Front: front, Began: began, Rooms: s.rooms(),
		Tracer: s.tracer,
		Open: func(ctx context.Context, url string) (store.Store, error) {
			s.redactor.LearnURLs(url)
			opened, err := open.Open(ctx, open.Config{URL: url, AutoMigrate: c.AutoMigrate, Logger: logger})
			if err != nil {
				return nil, err
			}
			return s.tracer.Store(opened), nil
		},
	}
	if c.Logger.Metrics {
		daemon.Logs = s.sinks
	}
	if s.Hangups != nil {
		daemon.Hangup = s.Hangups() // what comes while the store is away is heeded when it is there
	}
	opened, err := serve.Await(ctx, front, s.Getenv, logger, func() (store.Store, error) {
		return s.openAs(ctx, open.Config{AutoMigrate: c.AutoMigrate, Logger: logger})
	})
	if err != nil {
		return err
	}
	if opened == nil {
		logger.Info("stopped before the store could be reached")
		return nil
	}
	return s.runDaemon(ctx, opened, daemon)
}

func (s *session) runDaemon(ctx context.Context, opened store.Store, c serve.DaemonConfig) error {
	d, err := serve.NewDaemon(opened, c)
	door, closed := errors.AsType[*serve.DoorError](err)
	switch {
	case closed:
		return cannotServe(door, "give api.listen another address, or tokens; another daemon may have this port")
	case errors.Is(err, serve.ErrListen):
		return cannotListen(err)
	case err != nil:
		return cannot(fromPipeline(err), "start the daemon")
	}
	draining := func() { c.Logger.Info("draining; a second signal ends at once") }
	err = s.runUntilDrained(ctx, draining, func() error { return d.Run(ctx) })
	if err == nil {
		c.Logger.Info("stopped")
	}
	return cannot(err, "carry out the topics")
}

func cannotListen(err error) error {
	return &problem{what: "cannot serve health and metrics", err: err,
		next: "give listen another port, or off; another daemon may have this one"}
}

// reload reads a configuration that is to replace the one in effect. Its problems
// are returned as they are.
func (s *session) reload(src config.Source) (*config.Config, error) {
	c, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	s.learn(c)
	return c, checkPrograms(c)
}

// checkUp finds what a file may have, but a daemon cannot work with.
func checkUp(src config.Source, c *config.Config) error {
	switch {
	case src.Path == "":
		return noFile()
	case len(c.Topics)+len(c.Pipelines)+len(c.Schedules) == 0:
		return &problem{code: exitUsage, what: "there is nothing to run",
			err:  fmt.Errorf("%s has no topics and no pipelines", src.Path),
			next: "add topics: or pipelines:, as in deploy/pawl.yaml; docs/configuration.md has all keys"}
	}
	if err := checkPrograms(c); err != nil {
		return &problem{code: exitUsage, what: "the configuration cannot be put into effect", err: err,
			next: "install it, or correct its path"}
	}
	return nil
}

// checkPrograms finds commands whose program is not there.
func checkPrograms(c *config.Config) error {
	var errs []error
	for _, t := range c.Topics {
		if name := missingProgram(t.Command); name != "" {
			errs = append(errs, fmt.Errorf("topics.%s.command: there is no program %q", t.Name, name))
		}
	}
	return errors.Join(errs...)
}

func topicNames(c *config.Config) []string {
	var names []string
	for _, t := range c.Topics {
		names = append(names, t.Name)
	}
	for _, p := range c.Pipelines {
		names = append(names, "pipeline "+p.Name)
	}
	for i := range c.Schedules {
		names = append(names, "schedule "+c.Schedules[i].Name)
	}
	return names
}

// daemonLogger logs as the configuration says, from a level that may change. From now on nothing waits for the readers
// of stdout and stderr.
func (s *session) daemonLogger(c *config.Config, level *slog.LevelVar, began time.Time) (*slog.Logger, error) {
	from, err := logs.ParseLevel(c.Logger.Level)
	if err != nil {
		return nil, err
	}
	level.Set(from)
	stdout, stderr := s.unblock()
	s.log, err = serve.OpenLog(serve.LogConfig{Logger: c.Logger, Level: level, Node: serve.Owner(c.Node, began),
		Redact: s.redactor.Redact, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return nil, &problem{code: exitUsage, what: "cannot log", err: err,
			next: "correct logger: in the configuration file, or the environment"}
	}
	return slog.New(s.log.Handler()), nil
}
