package meter

import (
	"context"
	"errors"
	"time"
)

// Costs of a run. What could not be measured is negative.
type Costs struct {
	CPU     time.Duration // client and server
	WAL     int64         // bytes of records, without full-page images
	Dead    int64         // row versions that updates and deletes left behind
	Commits int64
}

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

// Settle returns the costs between Begin and End. Counters of the server are
// complete only when the arm's sessions are gone, so it waits for that.
func (m *Meter) Settle(ctx context.Context) (Costs, error) {
	c := Costs{CPU: m.cpu1 - m.cpu0, WAL: -1, Dead: -1, Commits: -1}
	if !m.Account || m.Server == nil {
		return c, nil
	}
	err := m.Server.settle(ctx, &c)
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
