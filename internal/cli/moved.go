package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/migrate"
)

// notMoved refuses to change a topic of this store that has moved to another one, where
// the change would do nothing, and says of one that is on its way what is left out.
func (s *session) notMoved(ctx context.Context, topic, verb string) error {
	away, err := migrate.Away(ctx, s.opened)
	if err != nil {
		return cannot(err, "%s topic %s", verb, topic)
	}
	for i := range away {
		a := &away[i]
		switch {
		case a.Topic != topic:
		case a.Moved:
			return &problem{code: exitConflict, what: fmt.Sprintf("cannot %s topic %s", verb, topic),
				err: fmt.Errorf("it has moved to %s: no worker processes it in this store", a.Target), next: a.There()}
		default:
			s.note("topic %s is %s: part of it is in %s, which this leaves as it is; for that, %s", topic, a.Stage,
				a.Target, a.There())
		}
	}
	return nil
}

// elsewhere says in which other stores ids may be that are unknown here.
func (s *session) elsewhere(ctx context.Context) {
	away, err := migrate.Away(ctx, s.opened)
	if err != nil || len(away) == 0 {
		return
	}
	var where []string
	for i := range away {
		where = append(where, fmt.Sprintf("topic %s has moved to %s: %s", away[i].Topic, away[i].Target,
			away[i].There()))
	}
	s.note("those that are not found may be in another store; %s", strings.Join(where, "; "))
}
