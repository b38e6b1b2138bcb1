package sqlite

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// The times of keys are marks in a scope that no caller can name; they expire like
// others.
const (
	selectPace = `SELECT until FROM pawl_mark WHERE scope = x'' AND key = ?1 AND until > ?2`
	putPace    = `INSERT INTO pawl_mark (scope, key, version, until, value) VALUES (x'', ?1, 1, ?2, x'')
		ON CONFLICT (scope, key) DO UPDATE SET until = excluded.until`
)

// Reserve implements [store.Shared].
func (s *side) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	paces, err := backend.AdmitPaces(paces)
	if err != nil {
		return nil, err
	}
	answers := make([]store.Paced, len(paces))
	err = s.write(ctx, &call{op: "reserve", phase: toManage, weight: len(paces), do: func(k *work) error {
		for i := range paces {
			if err := k.advance(&paces[i], &answers[i]); err != nil {
				return err
			}
		}
		return nil
	}})
	return answers, err
}

// advance moves the time of one key ahead.
func (k *work) advance(p *store.Pace, answer *store.Paced) error {
	key, ahead := []byte(p.Key), time.Duration(0)
	err := k.db.query(selectPace, func(r row) error {
		ahead = time.Duration(r.int(0)-k.now) * time.Microsecond
		return nil
	}, key, k.now)
	if err != nil {
		return err
	}
	next, is := p.Advance(ahead)
	if *answer = is; is.Taken {
		_, err = k.db.exec(putPace, key, k.now+micros(next))
	}
	return err
}
