package api_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

func TestState(t *testing.T) {
	check := func(topic string, value []byte) error {
		if topic == "limits" && string(value) == "0" {
			return errors.New("no such limit")
		}
		return nil
	}
	rooms := api.Rooms{CheckState: check}
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}, Rooms: rooms}, func(t *testing.T, d *door) {
		d = d.with(t).as("secret-admin")
		var v operate.StateValue
		d.want(200, d.post("/v1/state/flags/a%2Fb/put", `{"value":{"on":true},"if_version":0}`)).into(t, &v)
		if v.Key != "a/b" || string(v.Value) != `{"on":true}` || v.Writer != "root" {
			t.Errorf("%+v", v)
		}
		d.want(409, d.post("/v1/state/flags/a%2Fb/put", `{"value":1,"if_version":0}`))
		d.want(422, d.post("/v1/state/flags/a%2Fb/put", `{"value":1,"if_version":-5}`))
		d.want(422, d.post("/v1/state/flags/a%2Fb/put", `{}`))
		d.want(422, d.post("/v1/state/limits/api/put", `{"value":0}`))
		d.want(422, d.post("/v1/state/flags/a%20b/put", `{"value":1}`))
		d.want(403, d.as("secret-viewer").post("/v1/state/flags/a%2Fb/put", `{"value":1}`))
		d.want(403, d.as("secret-operator").post("/v1/state/flags/a%2Fb/rm", ``))
		d.want(200, d.get("/v1/state/flags/a%2Fb")).into(t, &v)
		d.want(200, d.post("/v1/state/flags/a%2Fb/rm", ``))
		d.want(404, d.get("/v1/state/flags/a%2Fb"))
		var all []operate.StateValue
		d.want(200, d.get("/v1/state/flags/a%2Fb/history")).into(t, &all)
		if len(all) != 2 || !all[0].Deleted || all[1].Version != v.Version {
			t.Errorf("%+v", all)
		}
		d.want(200, d.post("/v1/state/flags/c/put", `{"value":"red","schema":"color"}`))
		d.want(200, d.get("/v1/state/flags")).into(t, &all)
		if len(all) != 1 || all[0].Key != "c" || all[0].Schema != "color" {
			t.Errorf("%+v", all)
		}
	})
}
