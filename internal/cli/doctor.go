package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/doctor"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong, and say what to do", Args: count(0, 0, "arguments"),
		Long: `Looks at the configuration, the store and its schema, its clock, the disk, the limits
of this machine, every topic, the workers and the pipelines. Each line has a verdict,
and a fix if one is needed. It changes nothing.

The exit code is 7 if there are problems.`,
		Example: `  pawl doctor || echo "problems found"
  pawl doctor -o json || true   # for a program that reads the verdicts`,
		RunE: func(c *cobra.Command, _ []string) error {
			d := &doctor.Doctor{Config: s.configFinding}
			if err := s.findStore(); err == nil { // else the configuration is what is wrong
				d.Open.URL, d.Mirror = s.url(), s.mirror()
			}
			found, opened := d.Examine(c.Context())
			s.opened = opened
			found = append(found, s.pipelineFindings(c.Context(), opened)...)
			checks := len(found)
			found = append(found, missingPrograms(serve.Kinds())...)
			if err := s.findings(found); err != nil {
				return err
			}
			if n := doctor.Problems(found); n > 0 {
				return &problem{
					code: exitFound, what: fmt.Sprintf("%d of %d checks found something", n, checks),
					err:  fmt.Errorf("looked at %s", time.Now().Format(time.DateTime)),
					next: "do what the last column says, then run it again",
				}
			}
			return nil
		},
	}
}

// configFinding looks at the configuration file, if there is one.
func (s *session) configFinding() doctor.Finding {
	f := doctor.Finding{Check: "config", Verdict: doctor.Well,
		Detail: "no " + config.DefaultFile + " here, and none is needed for pawl work"}
	src, err := s.source(s.configPath)
	if err == nil && src.Path != "" {
		var c *config.Config
		if c, err = s.load(src); err == nil {
			f.Detail = fmt.Sprintf("%s: %s, %s", src.Path, operate.Counted(len(c.Topics), "topic"),
				operate.Counted(len(c.Overrides), "override"))
		}
	}
	if err != nil {
		f.Verdict, f.Detail, f.Fix = doctor.Ill, err.Error(), "run `pawl config check`, and correct what it finds"
		f.Runbook = "PawlConfigNotReloaded"
		if problems, ok := errors.AsType[config.Problems](err); ok {
			f.Detail = fmt.Sprintf("%s has %s; the first: %s", src.Path, operate.Counted(len(problems.Faults()), "problem"),
				problems.Faults()[0].String())
		}
	}
	return f
}

// pipelineFindings asks the kinds of the configured pipelines.
func (s *session) pipelineFindings(ctx context.Context, opened store.Store) (all []doctor.Finding) {
	c, err := s.loadFile("pipelines")
	if err != nil {
		return nil // the check of the configuration has said so
	}
	for _, p := range c.Pipelines {
		if p.Kind.Doctor == nil {
			continue
		}
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		found := p.Kind.Doctor(once, pipeline.Env{Name: p.Name, Section: p.Section, Store: opened})
		cancel()
		for _, f := range found {
			v := doctor.Ill
			if f.Warning {
				v = doctor.Worth
			}
			all = append(all, doctor.Finding{Check: p.Name, Verdict: v, Detail: f.Problem, Fix: f.Next})
		}
		if len(found) == 0 {
			all = append(all, doctor.Finding{Check: p.Name, Verdict: doctor.Well,
				Detail: p.Kind.Name + ": no problems found"})
		}
	}
	return all
}

// missingPrograms names the optional programs that pipelines do not find. None of them is a problem by itself.
func missingPrograms(kinds []*pipeline.Kind) []doctor.Finding {
	var found []doctor.Finding
	for _, k := range kinds {
		if k.Missing == nil {
			continue
		}
		missing := k.Missing()
		for _, program := range slices.Sorted(maps.Keys(missing)) {
			found = append(found, doctor.Finding{
				Check: k.Name, Verdict: doctor.Unknown, Detail: program + " is not installed; it is needed for " +
					missing[program],
				Fix: "install it if you need that",
			})
		}
	}
	return found
}

// findings prints what was found; in words, a fix under what it is for.
func (s *session) findings(found []doctor.Finding) error {
	widest := 0
	for i := range found {
		widest = max(widest, terminal.Width(found[i].Check))
	}
	l := s.list("CHECK")
	for _, f := range found {
		f.Detail, f.Fix = s.redactor.Redact(f.Detail), s.here(f.Fix)
		if s.output != formatTable {
			l.add(f, "")
			continue
		}
		_, _ = fmt.Fprintf(s.out, "%s  %-*s  %s\n", verdictSigns[f.Verdict], widest, f.Check, oneLine(f.Detail))
		if f.Fix != "" {
			_, _ = fmt.Fprintf(s.out, "   %-*s  → %s\n", widest, "", f.Fix)
		}
	}
	if s.output != formatTable {
		return l.end("")
	}
	return s.out.Flush()
}

var verdictSigns = map[doctor.Verdict]string{doctor.Well: "✔", doctor.Worth: "!", doctor.Ill: "✖", doctor.Unknown: "-"}
