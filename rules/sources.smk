# Raw files: from --config mirror=DIR or the data packages of the lock, checked against resources/sources.tsv.

for source_name in PLAN.sources:

    rule:
        name:
            f"fetch_{source_name.replace('-', '_')}"
        input:
            # A new line in the list fetches nothing again; a new checksum does, for it is a parameter.
            table=ancient("resources/sources.tsv"),
        output:
            PLAN.source_file(source_name),
        log:
            f"{ROOT}/logs/fetch/{source_name}.log",
        benchmark:
            f"{ROOT}/benchmarks/fetch/{source_name}.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        params:
            name=source_name,
            sha256=PLAN.sources[source_name]["sha256"],
        message:
            "Checking {params.name}"
        shell:
            "python workflow_scripts/fetch.py --sources {input.table} --name {params.name}"
            " --out {output} --log {log}"
