package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/doctor"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// defaultAPI is where `pawl api` listens unless something else is said.
const defaultAPI = "127.0.0.1:8470"

func (s *session) api() *cobra.Command {
	listen := ""
	c := &cobra.Command{
		Use: "api", Short: "Serve the HTTP API of a store, and nothing else", Args: count(0, 0, "flags only"),
		Long: `Serves the HTTP API, by which programs in any language send messages, work on them, look
and act: docs/api.md. Tokens, TLS and a proxy are in the configuration file, under api;
without tokens it listens on a loopback address only. Any number of processes may serve
one store.

/livez and /readyz answer without a token. SIGHUP reads the tokens again.`,
		Example: `  pawl api                            # runs until it is stopped
  pawl api --listen 127.0.0.1:0       # runs until it is stopped`,
		RunE: func(c *cobra.Command, _ []string) error {
			read := func() (config.Source, error) {
				src, err := s.source(s.configPath)
				if err == nil && listen != "" {
					src.Flags["api"] = listen
				}
				return src, err
			}
			src, err := read()
			if err != nil {
				return err
			}
			conf, err := s.load(src)
			if err == nil && !conf.API.Serves() {
				listen = defaultAPI
				if src, err = read(); err == nil {
					conf, err = s.load(src)
				}
			}
			if err != nil {
				return err
			}
			return s.runAPI(c.Context(), conf, read, false, nil)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "`ADDRESS` of the API: host:port (default: api.listen in the file, else "+
		defaultAPI+")")
	return c
}

// runAPI serves the API alone; with ticks it sends what schedules say.
func (s *session) runAPI(ctx context.Context, c *config.Config, read func() (config.Source, error), ticks bool,
	opening func(*serve.Door)) error {
	if s.dryRun {
		s.note("would serve the API of %s at %s", redact.URL(c.Store), c.API.Listen)
		return nil
	}
	began := time.Now()
	logger, err := s.daemonLogger(c, &slog.LevelVar{}, began)
	if err != nil {
		return err
	}
	if err := s.trace(ctx, c, logger); err != nil {
		return err
	}
	s.fromFile, s.mirrorFile = c.Store, c.Mirror
	opened, err := serve.Await(ctx, nil, s.Getenv, logger, func() (store.Store, error) {
		return s.openAs(ctx, open.Config{AutoMigrate: c.AutoMigrate, Logger: logger})
	})
	if err != nil || opened == nil {
		return err
	}
	matrix, err := serve.Matrix(c.Overrides...)
	if err != nil {
		return cannot(err, "read the policy")
	}
	var hangups <-chan struct{}
	if s.Hangups != nil && read != nil {
		hangups = s.Hangups()
	}
	err = serve.ServeAPI(ctx, opened, serve.DoorConfig{
		API: c.API, Console: c.Console, Opened: opening, Topics: c.Topics, Policy: matrix, Rooms: s.rooms(),
		Owner: serve.Owner(c.Node, began), Version: s.version, Logger: logger,
	}, ticks, hangups, func() (*config.API, error) {
		src, err := read()
		if err != nil {
			return nil, err
		}
		next, err := config.Load(src)
		if err != nil {
			return nil, err
		}
		s.learn(next)
		return &next.API, nil
	})
	if err != nil {
		return cannotServe(err, "give it another address with --listen, or tokens in the configuration file")
	}
	logger.Info("stopped")
	return nil
}

// rooms are what the API shows beside the store, as the commands print it.
func (s *session) rooms() api.Rooms {
	return api.Rooms{
		Commands: sync.OnceValue(s.offered),
		Stores: func() any {
			all := []backendInfo{}
			for _, b := range open.Backends() {
				all = append(all, formBackend(&b))
			}
			return all
		},
		CheckState: serve.CheckState,
		PolicyLs: func() ([]operate.PolicyRule, error) {
			m, err := s.effective()
			if err != nil {
				return nil, err
			}
			return operate.PolicyRules(m), nil
		},
		PolicyExplain: func(f *operate.Failure) (operate.Decision, error) {
			m, err := s.effective()
			if err != nil {
				return operate.Decision{}, err
			}
			return operate.ExplainFailure(m, f, config.Near), nil
		},
		Doctor: func(ctx context.Context) (any, error) {
			d := &doctor.Doctor{Config: s.configFinding, Mirror: s.mirror()}
			d.Open.URL = s.url()
			found, opened := d.Examine(ctx)
			if opened != nil {
				defer func() { _ = opened.Close() }()
			}
			found = append(found, s.pipelineFindings(ctx, opened)...)
			found = append(found, missingPrograms(serve.Kinds())...)
			for i := range found {
				found[i].Detail = s.redactor.Redact(found[i].Detail)
			}
			return found, nil
		},
	}
}

// cannotServe is why the API is not served; elsewhere is what to do where it cannot listen.
func cannotServe(err error, elsewhere string) error {
	if errors.Is(err, serve.ErrListen) {
		return &problem{what: "cannot serve the API", err: err, next: elsewhere}
	}
	return &problem{code: exitUsage, what: "cannot serve the API", err: err,
		next: "correct api: in the configuration file, or the file that it names"}
}
