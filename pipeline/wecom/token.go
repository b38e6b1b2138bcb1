package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// Times of the access token.
const (
	tokenEarly = 2 * time.Minute        // how long before its end it is fetched again
	tokenFlock = 15 * time.Second       // how long one process may take to fetch it before another one does
	tokenLook  = 100 * time.Millisecond // how often waiting processes look
	deniedFor  = 3 * time.Second        // no process asks again that soon after a refusal
)

// tokens hands out the access token. It is fetched by one of all processes, and shared through the marks.
type tokens struct {
	marks  store.Shared
	scope  string
	corp   string
	secret string
	client *client

	mu   sync.Mutex // held while a token is fetched: the others wait for it
	have accessToken
}

type accessToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// keys are those of the token, of the lock and of a refusal. They name the secret, so that another one begins again.
func (t *tokens) keys() (token, lock, denied string) {
	id := digest([]byte(t.corp + "\x00" + t.secret))[:16]
	return "token/" + id, "lock/" + id, "denied/" + id
}

// get returns a token that is presumably valid. bad is one that WeCom refused; empty: none was.
func (t *tokens) get(ctx context.Context, bad string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.have.good(bad) {
		return t.have.Token, nil
	}
	for {
		now, denied, err := t.look(ctx)
		if err != nil {
			return "", err
		}
		if now.good(bad) {
			t.have = now
			return now.Token, nil
		}
		if denied {
			return "", &blockedError{api: "gettoken", in: deniedFor}
		}
		mine, err := t.lock(ctx)
		if err != nil {
			return "", err
		}
		if mine > 0 {
			return t.fetch(ctx, mine, bad)
		}
		if err := store.Sleep(ctx, tokenLook); err != nil {
			return "", err
		}
	}
}

func (a *accessToken) good(bad string) bool {
	return a.Token != "" && a.Token != bad && time.Until(a.Expires) > 0
}

// look reads what processes share.
func (t *tokens) look(ctx context.Context) (now accessToken, denied bool, err error) {
	token, _, refusal := t.keys()
	marks, err := t.marks.GetMarks(ctx, t.scope, token, refusal)
	if err != nil {
		return now, false, err
	}
	_ = json.Unmarshal(marks[token].Value, &now)
	_, denied = marks[refusal]
	return now, denied, nil
}

// lock takes the right to fetch; it returns 0 if another process has it.
func (t *tokens) lock(ctx context.Context) (version int64, err error) {
	_, lock, _ := t.keys()
	receipt, err := pipeline.PutMark(ctx, t.marks, pawl.Mark{Scope: t.scope, Key: lock, For: tokenFlock})
	return receipt.Version, err
}

// fetch asks WeCom, and tells the other processes. bad may have been replaced between the look and the lock.
func (t *tokens) fetch(ctx context.Context, mine int64, bad string) (string, error) {
	token, lock, refusal := t.keys()
	unlock := pawl.Mark{Scope: t.scope, Key: lock, Remove: true, If: mine}
	if now, _, err := t.look(ctx); err == nil && now.good(bad) {
		t.have = now
		_, err = t.marks.PutMarks(ctx, unlock)
		return now.Token, err
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	err := t.client.send(ctx, http.MethodGet, "gettoken", url.Values{"corpid": {t.corp}, "corpsecret": {t.secret}},
		nil, &answer)
	if err == nil && (answer.Token == "" || answer.Seconds <= 0) {
		err = &uncertainError{"gettoken", errors.New("the answer has no token")}
	}
	keep := pawl.Mark{Scope: t.scope, Key: token, If: pawl.AnyVersion}
	if err == nil {
		life := time.Duration(min(answer.Seconds, 7200)) * time.Second
		t.have = accessToken{Token: answer.Token, Expires: time.Now().Add(life - min(tokenEarly, life/2))}
		keep.Value, _ = json.Marshal(t.have)
		keep.For = life
	} else if e, ok := errors.AsType[*apiError](err); ok {
		keep.Key, keep.For, keep.Value = refusal, deniedFor, []byte(e.Error())
	} else {
		keep = unlock
	}
	put := []pawl.Mark{unlock}
	if keep.Key != lock {
		put = append(put, keep)
	}
	// Failing to share it only costs another call.
	_, _ = t.marks.PutMarks(context.WithoutCancel(ctx), put...)
	if err != nil {
		return "", err
	}
	return t.have.Token, nil
}

// expires tells until when the token that processes share is used; zero: there is none.
func (t *tokens) expires(ctx context.Context) time.Time {
	now, _, err := t.look(ctx)
	if err != nil {
		return time.Time{}
	}
	return now.Expires
}
