"""Every number of the protocol, once, with its reason. Times are seconds.

Detection of a killed process (16 members, none overloaded, round trip of a few ms):

    wait for a probe     <= 1 PROBE_PERIOD x (1 + JITTER)         0.110
    direct and indirect     2 x PROBE_TIMEOUT                     0.100
    suspicion            SUSPICION_MULT x log10(16) x PERIOD      0.241  once CONFIRMATIONS agree
    spread               2-3 hops of at most FLUSH_INTERVAL       0.040
                                                                  -----
                                                                  0.491  (bound promised: 0.6)

The wait is bounded because each member probes its successor on a ring of all members, so that
every member is probed at least once a period; the random probes alone would leave a dead member
unprobed for a whole period with a chance of (1 - 1/15)^15 = 36 %. The confirmations arrive inside
the suspicion: CONFIRMERS members probe a suspect as soon as they hear of it (0.100 s), and agree
or let it defend itself.

A live member dies only if it answers nobody and does not refute for 0.1 + 0.241 s while
CONFIRMATIONS other members miss it too; a host where everything stalls for that long is seen by
the members' own clocks (OVERSLEPT), which then judge nobody by the time they slept.
"""

# Probes
PROBE_PERIOD = 0.100  # a member probes one ring successor and one random member in each
PROBE_TIMEOUT = 0.050  # wait for a direct answer, then as long for indirect ones: one period
INDIRECT_PROBES = 3  # helpers that are asked; loses 0.6 % of answers at 5 % loss a datagram
NACK_SHARE = 0.8  # a helper says "no answer" at this share of the timeout, so that it counts
JITTER = 0.10  # every period is drawn from +-10 %, so that members never march in step

# Suspicion
SUSPICION_MULT = 2.0  # shortest suspicion: this x max(1, log10(members)) periods
SUSPICION_MAX_MULT = 6.0  # longest, when nobody confirms: this x the shortest
CONFIRMATIONS = 3  # independent accusers, besides the first, that bring it to the shortest
CONFIRMERS = 6  # members that probe a suspect at once; twice CONFIRMATIONS, some may be down

# Awareness of the own health
AWARENESS_MAX = 8  # own timeouts are multiplied by score + 1, at most by 9
OVERSLEPT = 0.050  # a timer that is later than this says that this process did not run
LAG_IGNORED = 0.010  # lateness of timers that is normal on a machine with time to spare
LAG_MAX = 1.0  # more is a pause of this process alone, and says nothing of the others
LAG_HALF_LIFE = 10.0  # a starved machine is starved for a while: remember the worst lateness
SUSPICION_LAGS = 4.0  # a suspicion lasts longer by this x the lag: those who share our machine
#                       run as late as we do, now and then several times in a row

# Spread of events
FANOUT = 3  # peers of an event flush and of a gossip round
FLUSH_INTERVAL = 0.020  # at most one event flush in this time, however many events there are
FLUSHES = 2  # an event is flushed so often: misses a member with chance e^-6 = 0.25 %
RETRANSMIT_MULT = 4  # sends of one update by one member: this x ceil(log10(members + 1))

# Gossip of rows
GOSSIP_PERIOD = 0.500  # push to FANOUT peers, each answers; an owner writes at most one version
COLD_ROWS = 8  # old rows sent along, in turn: all of 1,000 in 1000 / (3 x 8) rounds = 21 s
EXCHANGE_DATAGRAMS = 4  # most datagrams of one push or one answer, when many rows are new

# Joining, coming back, forgetting
JOIN_RETRY = 0.250  # until a seed has sent its table
RECONNECT_PERIOD = 1.0  # one push to a dead member or a silent seed: heals partitions
TOMBSTONE_TIME = 60.0  # dead and left rows are told this long
TIDY_PERIOD = 1.0  # how often old tombstones are looked for
GRAVES = 4096  # names whose last incarnation is kept after their tombstone; oldest go first
LEAVE_TIME = 0.200  # a leaver tells and answers so long: two probe periods

# Sizes in bytes
MAX_DATAGRAM = 1400  # below the 1,500 of Ethernet with room for IP, UDP and a tunnel
SEAL_ROOM = 32  # left for the edge's encryption: nonce, tag, key number
MAX_BODY = MAX_DATAGRAM - SEAL_ROOM
MAX_NAME = 63  # one DNS label
MAX_ADDRESS = 63
MAX_MODEL = 96
