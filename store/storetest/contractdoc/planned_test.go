package contractdoc

import "github.com/pawl-dev/pawl/store"

// planned are the backends to come, as they are meant. When one is there, its own
// description takes the place of the plan.
func planned() []column {
	return []column{
		{Description: mysqlPlan(), planned: true, schema: true},
		{Description: redisPlan(), planned: true},
		{Description: kafkaPlan(), planned: true},
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

func kafkaPlan() store.Description {
	return store.Description{
		Name: "kafka", URL: "kafka://HOST:PORT",
		Durability: "acks=all, as far as replication and min.insync.replicas of the topic go",
		Capabilities: store.Capabilities{
			store.CanSurvive:     kept(""),
			store.CanProcesses:   kept("a consumer group: partitions are assigned"),
			store.CanExclusive:   kept("per assignment; not across a rebalance that timed out"),
			store.CanDeadline:    refused("within the process that has the partition; one that hangs is evicted by the group"),
			store.CanPriority:    refused("a log is read in its order"),
			store.CanDelay:       refused("a log is read in its order; a retry waits in its lane, within the process"),
			store.CanUnique:      refused("the broker compares nothing; consumers can recognise ids"),
			store.CanEmitAtomic:  refused("what is emitted is produced before the ack, under derived ids"),
			store.CanAttempts:    refused("within the process; a crash count of the oldest unfinished message is committed"),
			store.CanDeadLetters: refused("a dead-letter topic, with the retention of a topic"),
			store.CanLookup:      refused("no index by id; a message can be read by its offset"),
			store.CanTopics:      refused("settings are the program's, a pause is the process's"),
			store.CanTxAppend:    refused("there is no transaction to share with the caller's data"),
			store.CanRepeatBatch: refused("idempotent within a producer's session; after that a repetition is a duplicate with its id"),
			store.CanWake:        kept("a fetch waits at the broker"),
		},
	}
}
