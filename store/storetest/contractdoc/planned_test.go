package contractdoc

import "github.com/pawl-dev/pawl/store"

// planned are the backends to come, as they are meant. When one is there, its own
// description takes the place of the plan.
func planned() []column {
	return []column{
		{Description: mysqlPlan(), planned: true, schema: true},
		{Description: redisPlan(), planned: true},
	}
}

func kept(note string) store.Support    { return store.Support{Kept: true, Note: note} }
func refused(note string) store.Support { return store.Support{Note: note} }

// keeping keeps every capability, but for what is said.
func keeping(but store.Capabilities) store.Capabilities {
	cs := store.Capabilities{}
	for _, c := range store.AllCapabilities {
		cs[c] = kept("")
		if s, said := but[c]; said {
			cs[c] = s
		}
	}
	return cs
}

func mysqlPlan() store.Description {
	return store.Description{
		Name: "mysql", URL: "mysql://USER@HOST:PORT/DATABASE",
		Durability: "as innodb_flush_log_at_trx_commit and sync_binlog of the server say",
		Capabilities: keeping(store.Capabilities{
			store.CanTxAppend: kept("*sql.Tx"),
			store.CanWake:     refused("the server notifies nobody: claimers poll"),
		}),
	}
}

func redisPlan() store.Description {
	return store.Description{
		Name: "redis", URL: "redis://HOST:PORT/DATABASE",
		Durability: "as appendfsync of the server says: everysec may lose a second of what was taken",
		Capabilities: keeping(store.Capabilities{
			store.CanSurvive:    kept("as far as appendfsync goes; a failover may lose what was not replicated"),
			store.CanEmitAtomic: kept("a store is one hash slot"),
			store.CanTxAppend:   refused("there is no transaction to share with the caller's data"),
		}),
	}
}
