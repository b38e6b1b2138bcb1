package serve

import (
	"context"
	"path/filepath"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
)

// openSchedules makes the scheduler, if the store can keep schedules, and puts those of the configuration into it.
func (d *Daemon) openSchedules() error {
	var err error
	d.scheduler, err = cron.New(d.store, cron.Config{Owner: d.owner(), Logger: d.Logger, Booked: d.booked})
	if err != nil {
		if len(d.Config.Schedules) > 0 {
			return err
		}
		return nil
	}
	return d.declareSchedules(d.Config)
}

// declareSchedules puts the schedules of a configuration into the store, with a record of what changed.
func (d *Daemon) declareSchedules(c *config.Config) error {
	if d.scheduler == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPipelinesFor)
	defer cancel()
	file, err := filepath.Abs(c.File)
	if err != nil {
		return err
	}
	changes, err := d.scheduler.Declare(ctx, file, c.Schedules)
	for _, change := range changes {
		entry := operate.AuditEntry{Action: "schedules put", Who: d.owner(), Target: change.Name, Count: 1,
			Reason: "stated in " + file, Result: operate.AuditResult{Done: 1}}
		if change.Removed {
			entry.Action, entry.Reason = "schedules rm", "no longer in "+file
		}
		d.Logger.Info("a schedule of the file changed", "schedule", change.Name, "action", entry.Action,
			"reason", entry.Reason)
		if err := operate.Audit(ctx, d.store, entry); err != nil {
			d.Logger.Warn("the change of a schedule is not in the audit", "schedule", change.Name, "error", err)
		}
	}
	return err
}

// booked counts what became of a tick.
func (d *Daemon) booked(name string, r cron.Run) {
	d.schedules.Ticks.Add(1, name, r.Action)
	switch r.Action {
	case cron.ActionFired:
		d.schedules.Lag.Observe(r.At.Sub(r.Tick))
		d.schedules.Fired(name, r.At)
	case cron.ActionMadeUp:
		d.schedules.Fired(name, r.At)
	}
}
