package forward

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

const maxUpdate = 1 << 20

// webhookThere tells a refusal of getUpdates that says that updates go to a webhook.
func webhookThere(description string) bool {
	return strings.Contains(strings.ToLower(description), "webhook")
}

// announceWebhook tells Telegram where to send updates, if an address for that is configured, until it has agreed.
func (f *forwarder) announceWebhook(ctx context.Context) error {
	s := f.env.Section
	if s.Text("webhook_url") == "" {
		<-ctx.Done()
		return nil
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		err := f.api.call(ctx, callTimeout, "setWebhook", map[string]any{
			"url": s.Text("webhook_url"), "secret_token": s.Text("secret_token"), "allowed_updates": wanted(),
		}, nil)
		if err == nil {
			f.say("")
			break
		}
		f.say("Telegram does not accept the webhook: " + err.Error())
		f.env.Logger.Warn("Telegram does not accept the webhook", "error", err, "again_in", wait)
		_ = store.Sleep(ctx, wait)
	}
	<-ctx.Done()
	return nil
}

// listen takes updates until ctx ends. Every process listens, if it can: on one machine only one can.
func (f *forwarder) listen(ctx context.Context) {
	mux, address := http.NewServeMux(), f.env.Section.Text("listen")
	mux.HandleFunc("POST "+f.env.Section.Text("path"), f.hook)
	pipeline.Serve(ctx, address, mux, func(err error) {
		if err != nil {
			f.env.Logger.Warn("the webhook cannot listen; another process may", "address", address, "error", err)
		}
	})
}

// hook takes one update. Telegram repeats it until the answer is 200, which means that it is stored.
func (f *forwarder) hook(w http.ResponseWriter, r *http.Request) {
	secret := f.env.Section.Text("secret_token")
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Telegram-Bot-Api-Secret-Token")), []byte(secret)) != 1 {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "wrong secret token", http.StatusForbidden)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	if err != nil {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	m, _, err := f.incoming(json.RawMessage(raw))
	if err != nil {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "no update", http.StatusBadRequest)
		return
	}
	if m.Topic != "" {
		if err := store.Send(r.Context(), f.env.Store, m); err != nil {
			f.env.Logger.Error("an update could not be stored", "error", err)
			http.Error(w, "not stored", http.StatusServiceUnavailable)
			return
		}
	}
	f.figs.updates.Add(1, f.env.Name)
}
