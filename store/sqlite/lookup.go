package sqlite

import "context"

// maxLookups is how many lookups are carried out at a time.
const maxLookups = 4

// lookups are the connections on which marks, state and results are read. What is read there is short, so it is not
// interrupted, and each connection keeps its statements and the topics: to prepare them takes several times as long as
// to read a mark.
type lookups struct {
	file string         // name of the file for the driver
	free chan *lookupAt // maxLookups of them; nil: not connected
}

type lookupAt struct {
	conn   *conn
	topics *topicCache
}

func newLookups(file string) *lookups {
	l := &lookups{file: file, free: make(chan *lookupAt, maxLookups)}
	for range maxLookups {
		l.free <- nil
	}
	return l
}

// peek runs do on a snapshot, for what time does not change.
func (s *inspector) peek(ctx context.Context, op string, do func(*work) error) error {
	if err := s.usable(ctx, op); err != nil {
		return err
	}
	select {
	case at := <-s.lookups.free:
		at, err := s.lookUp(ctx, at, do)
		s.lookups.free <- at
		return s.readError(ctx, op, err)
	case <-ctx.Done():
		return ended(ctx, op)
	case <-s.closing:
		return closed(op)
	}
}

// lookUp returns the connection for later ones, or nil if it is to be made again.
func (s *inspector) lookUp(ctx context.Context, at *lookupAt, do func(*work) error) (*lookupAt, error) {
	if at == nil {
		c, err := connect(ctx, s.lookups.file)
		if err != nil {
			return nil, err
		}
		at = &lookupAt{conn: c, topics: &topicCache{}}
	}
	_, err := at.conn.exec("BEGIN")
	if err == nil {
		var k *work
		if k, err = s.work(at.conn, at.topics); err == nil {
			err = do(k)
		}
		if _, left := at.conn.exec("ROLLBACK"); left == nil {
			return at, err
		}
	}
	_ = at.conn.close()
	return nil, err
}

// close waits for the lookups under way.
func (l *lookups) close() {
	for range maxLookups {
		if at := <-l.free; at != nil {
			_ = at.conn.close()
		}
	}
}
