package meter

import (
	"context"
	"errors"
	"time"
)

// Costs of a run. What could not be measured is nil.
type Costs struct {
	WAL     *float64 `json:"wal_bytes_per_job,omitempty"`   // of records, without full-page images
	Dead    *float64 `json:"dead_tuples_per_job,omitempty"` // row versions that updates and deletes left behind
	Commits *float64 `json:"commits_per_job,omitempty"`
	CPU     *float64 `json:"cpu_seconds_per_1k,omitempty"` // client and server, 1,000 jobs
}

// PerJob is what one of n jobs has of a total; nil without jobs.
func PerJob(total float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	return new(total / float64(n))
}

// CPUCosts are the costs of n jobs of which only CPU is known.
func CPUCosts(total time.Duration, n int) Costs { return Costs{CPU: PerJob(total.Seconds()*1000, n)} }

// Meter reads the costs of one run: Begin, the run, End, then Settle after the
// arm has closed its connections. Server is nil for an embedded store.
type Meter struct {
	Server *Server
	// Account asks for WAL, dead tuples and commits.
	Account bool

	cpu0, cpu1 time.Duration
}

// Begin starts the measured part.
func (m *Meter) Begin(ctx context.Context) (err error) {
	if m.Account && m.Server != nil {
		if err := m.Server.begin(ctx); err != nil {
			return err
		}
	}
	m.cpu0, err = m.cpu()
	return err
}

// End ends the measured part.
func (m *Meter) End(ctx context.Context) (err error) {
	m.cpu1, err = m.cpu()
	if m.Account && m.Server != nil {
		err = errors.Join(err, m.Server.end(ctx))
	}
	return err
}

// Settle returns the costs of n jobs between Begin and End. Counters of the server are
// complete only when the arm's sessions are gone, so it waits for that.
func (m *Meter) Settle(ctx context.Context, n int) (Costs, error) {
	c := CPUCosts(m.cpu1-m.cpu0, n)
	if !m.Account || m.Server == nil {
		return c, nil
	}
	err := m.Server.settle(ctx, &c, n)
	return c, err
}

func (m *Meter) cpu() (time.Duration, error) {
	own, err := selfCPU()
	if err != nil || m.Server == nil || m.Server.postmaster == 0 {
		return own, err
	}
	server, err := treeCPU(m.Server.postmaster)
	return own + server, err
}
