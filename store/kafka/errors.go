package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/tlscause"
)

// explain gives an error of the client its code and, where there is one, the next
// step. Errors of the client hold no password.
func (s *core) explain(op string, err error) error {
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

func (s *core) codeOf(err error) (hint string, code error) {
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
	}
	return "", store.ErrUnavailable
}

// topicError is an error about a topic, by its name at the brokers. Their own errors do not
// name it.
type topicError struct {
	topic  string
	create bool // it was to be created
	error
}

// Unwrap returns what the brokers said.
func (e *topicError) Unwrap() error { return e.error }

// about names the topic that an error is about, where the right to it is missing.
func about(wire string, err error) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return &topicError{topic: wire, error: err}
	}
	return err
}

// rights says which right the user lacks, on what, and how to grant it; nothing if the
// error is about something else.
func (s *core) rights(err error) string {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		topic := "TOPIC"
		of, ok := errors.AsType[*topicError](err)
		if ok {
			topic = of.topic
		}
		if ok && of.create {
			return s.grant("topic "+topic, "--operation Create --topic "+topic) + ", or create it and set no_create"
		}
		return s.grant("topic "+topic, "--operation Read --operation Write --operation Describe --topic "+topic)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return s.grant("group "+s.cfg.Group, "--operation Read --group "+s.cfg.Group)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		id := s.transactionalID()
		return s.grant("transactional id "+id, "--operation Write --operation Describe --transactional-id "+id)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		if of, ok := errors.AsType[*topicError](err); ok && of.create {
			return s.grant("cluster", "--operation Create --cluster") + ", or create topics by hand and set no_create"
		}
		return s.grant("cluster", "--operation Describe --operation IdempotentWrite --cluster")
	}
	return ""
}

// grant returns the command that grants rights on a resource.
func (s *core) grant(resource, acl string) string {
	user := s.cfg.User
	if user == "" {
		user = "NAME"
	}
	return fmt.Sprintf(
		"the user lacks a permission on %s; an administrator grants it with kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s %s",
		resource, s.cfg.Brokers[0], user, acl)
}

// mismatch recognises a port of the brokers that expects a different protocol: TLS or
// none, a user or none, another mechanism.
func (s *core) mismatch(err error) (hint string, code error) {
	if hint = s.refusedUser(err); hint == "" {
		hint = s.wrongTLS(err)
	}
	if hint != "" {
		return hint, store.ErrDenied
	}
	// A connection that ends at once allows only a guess: a proxy whose broker is down
	// does the same. The client's error texts tell in which step it happened.
	if _, cut := errors.AsType[*kgo.ErrFirstReadEOF](err); !cut {
		return "", nil
	}
	switch at := err.Error(); {
	case s.tls != nil && strings.Contains(at, "immediately after a dial"):
		return noTLS, store.ErrUnavailable
	case s.tls == nil && strings.Contains(at, "requires TLS"):
		return wantsTLS, store.ErrUnavailable
	case s.cfg.User == "" && s.cfg.TokenFile == "":
		return "does the broker want a user at this port? Say kafka://USER:PASSWORD@HOST:PORT, with tls=true if it speaks TLS",
			store.ErrUnavailable
	}
	return "", nil
}

const (
	noTLS    = "the broker does not seem to speak TLS at this port: leave tls, ca, cert and key out, or use its port for TLS"
	wantsTLS = "the broker seems to speak TLS at this port: say tls=true (and ca=FILE for an authority of your own), or use its port without TLS"
)

// wrongTLS says what is wrong with TLS, where that is certain.
func (s *core) wrongTLS(err error) string {
	if _, none := errors.AsType[tls.RecordHeaderError](err); none {
		return noTLS
	}
	if s.tls == nil && strings.Contains(err.Error(), "tls alert record") {
		return wantsTLS
	}
	return tlscause.Of(err, tlscause.Advice{Authority: "name its file with ca=FILE", Name: "use a name that it states as the address",
		Client: ": look at cert=FILE&key=FILE"})
}

// refusedUser says why the brokers do not let the user in.
func (s *core) refusedUser(err error) string {
	mechanism := "OAUTHBEARER"
	if s.cfg.TokenFile == "" {
		mechanism = s.mechanism().Name()
	}
	_, refused := errors.AsType[*refusedToken](err)
	noFile, missing := errors.AsType[*fs.PathError](err)
	switch {
	case missing && noFile.Path == s.cfg.TokenFile:
		return "put a token into " + s.cfg.TokenFile + ", where this user may read it"
	case refused, errors.Is(err, kerr.SaslAuthenticationFailed) && s.cfg.TokenFile != "":
		return "put a token that the brokers accept and that has not expired, into " + s.cfg.TokenFile +
			"; it is read again for every connection"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Sprintf(
			"the broker does not accept %s: name another mechanism (mechanism=PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "+
				"token_file=FILE for OAUTHBEARER)", mechanism)
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "check user, password and mechanism (" + mechanism + ")"
	case errors.Is(err, kerr.IllegalSaslState):
		return "the broker accepts no user at this port: leave user and password out, or use its port with SASL"
	}
	return ""
}
