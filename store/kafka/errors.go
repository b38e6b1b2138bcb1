package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// explain gives an error of the client its code and, where there is one, the next
// step. Errors of the client hold no password.
func (s *Store) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if already, ok := errors.AsType[*store.Error](err); ok {
		return already
	}
	hint, code := s.codeOf(err)
	if hint == "" && code == store.ErrUnavailable {
		hint = fmt.Sprintf("are the brokers up, and is %s an address that this machine reaches?",
			strings.Join(s.cfg.Brokers, ","))
	}
	return &store.Error{Op: op, Code: code, Err: err, Hint: hint}
}

func unavailable(op string, err error) error {
	if _, ok := errors.AsType[*store.Error](err); ok {
		return err
	}
	return &store.Error{Op: op, Code: store.ErrUnavailable, Err: err}
}

func (s *Store) codeOf(err error) (hint string, code error) {
	if hint, code := s.mismatch(err); code != nil {
		return hint, code
	}
	if hint := s.rights(err); hint != "" {
		return hint, store.ErrDenied
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "", nil
	case errors.Is(err, kgo.ErrClientClosed):
		return "", store.ErrClosed
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return "a program in the group has another way to share partitions (the range assignor, say, or no cooperative-sticky one): " +
			"give it a group of its own, or end it", store.ErrConflict
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return "create the topic: pawl kafka topics ensure TOPIC", store.ErrNotFound
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return "raise max.message.bytes of the topic and batch_bytes of the store, or offload large bodies",
			store.ErrTooLarge
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTopicException):
		return "", store.ErrInvalid
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return "fewer replicas are in sync than min.insync.replicas asks for: look at the brokers", store.ErrUnavailable
	case errors.Is(err, kerr.KafkaStorageError):
		return "a broker cannot write: look at its disk", store.ErrFull
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout),
		errors.Is(err, kgo.ErrRecordRetries),
		isNetwork(err), kerr.IsRetriable(err):
		return "", store.ErrUnavailable
	}
	return "", store.ErrUnavailable
}

func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}
